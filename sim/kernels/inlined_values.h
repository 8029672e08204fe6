// Values of compiled code that no kernel writes out, though several read them: each makes them
// again.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "sim/kernels/compiled_values.h"
#include "sim/kernels/rematerialization.h"

namespace shardscope {

/// Inductor writes a pointwise value that several kernels of one graph read only where it is made
/// of more than four tensors. Source: torch/_inductor/ir.py (StorageBox.should_realize_on_reuse),
/// config.py (realize_reads_threshold). Counted in graphs with collectives alone, which stand
/// between the kernels: elsewhere the 28 recorded steps of one rank's graphs are not nearer with
/// it. Example: logits in bfloat16 are cast for their largest value, and behind its reduction over
/// ranks again: no tensor in float32 is kept meanwhile.
class InlinedValues {
 public:
  /// `values` and `kept` must outlive it.
  InlinedValues(const CompiledValues& values, const Rematerialization& kept);

  bool is_inlined(std::uint32_t b) const {
    return !reads_[b].empty() && !values_.stays_in_kernel(b);
  }
  /// Place in the program of the last kernel that makes something again of it; 0: none does.
  std::size_t needed_until(std::uint32_t b) const { return needed_until_[b]; }

 private:
  using Buffers = std::set<std::uint32_t>;

  bool can_be_made_again(std::uint32_t b) const;
  Buffers reads_of(std::uint32_t b) const;

  const CompiledValues& values_;
  const Rematerialization& kept_;
  std::set<std::string_view> with_collectives_;  ///< graphs
  std::vector<Buffers> reads_;  ///< by buffer: of what it is made again; empty: it is not
  std::vector<std::size_t> needed_until_;
};

}  // namespace shardscope
