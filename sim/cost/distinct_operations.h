// Operations that are alike count once: a step has thousands of operations, and some hundred of
// them differ.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Classes of operations of which every two take as long as each other on every machine.
struct DistinctOperations {
  std::vector<OperationId> examples;    ///< of each class its first operation
  std::vector<std::uint32_t> class_of;  ///< by operation of the range: index into `examples`
};

DistinctOperations distinct_operations(const Schedule& schedule, IndexRange operations);

}  // namespace shardscope
