// Which values of forward compiled code keeps for backward, and which it makes again there.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/kernels/compiled_values.h"
#include "sim/kernels/minimum_cut.h"

namespace shardscope {

/// The minimum cut, in bytes, between what cannot be recomputed and what fused kernels of backward
/// read. What products or attention of backward read is kept anyway.
/// Source: torch/_functorch/partitioners.py, min_cut_rematerialization_partition.
class Rematerialization {
 public:
  /// `values` must outlive it.
  explicit Rematerialization(const CompiledValues& values);

  /// Read by fused kernels of backward alone, and made again there.
  bool is_recomputed(std::uint32_t b) const {
    return nodes_[b] != none && is_demanded(b) && !cut_.is_cut(nodes_[b]);
  }
  /// Place in the program of the last kernel that makes something again of it; 0: none does.
  std::size_t kept_until(std::uint32_t b) const { return kept_until_[b]; }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  bool is_forward_value(std::uint32_t b) const;
  bool is_demanded(std::uint32_t b) const;
  bool is_forced(std::uint32_t b) const;
  bool is_materialized(std::uint32_t b) const;
  bool is_statistic(std::uint32_t op, std::uint32_t b) const;
  bool reads_what_was_read_before(std::uint32_t op) const;
  bool can_be_recomputed(std::uint32_t b) const;
  std::vector<std::uint32_t> sources_of(std::uint32_t b) const;
  std::int64_t weight(std::uint32_t b) const;
  void build();
  void require(std::uint32_t b, std::size_t place);

  const CompiledValues& values_;
  std::vector<std::uint32_t> demanded_;
  std::vector<std::uint32_t> nodes_;       // by buffer, of the graph
  std::vector<std::size_t> needed_until_;  // by buffer: itself, or what it is made of
  std::vector<std::size_t> kept_until_;
  MinimumCut cut_;
};

}  // namespace shardscope
