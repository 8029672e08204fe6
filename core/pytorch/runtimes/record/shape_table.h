// ShapeTable: the shapes that operators are called with, each once, as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/pytorch/engine/observer.h"

namespace shardscope::eager {

/// Fills Schedule::shapes. The table must outlive this.
class ShapeTable {
 public:
  explicit ShapeTable(std::vector<std::string>& texts) : texts_(texts) {}

  /// Of the inputs that have dimensions, in their order: "32x40 40x20". Of more than
  /// `most_tensors` nothing: PyTorch's profiler notes nothing of lists of more than 30 either
  /// (torch/csrc/profiler/util.h, TENSOR_LIST_DISPLAY_LENGTH_LIMIT), and no operator has over five.
  std::uint32_t index_of(const OperatorCall& call);

 private:
  static constexpr std::size_t most_tensors = 150;
  /// Each input as often as it comes, or more than `most_tensors`.
  std::span<const TensorImpl* const> list(const OperatorCall& call);

  std::vector<std::string>& texts_;
  std::unordered_map<std::string, std::uint32_t> index_;  ///< by sizes, in bytes
  std::string key_;
  std::vector<const TensorImpl*> listed_;
};

}  // namespace shardscope::eager
