// A tensor that a runtime keeps by itself, for those who show memory.
#pragma once

#include <string>

#include "core/pytorch/engine/tensor.h"
#include "core/schedule/schedule.h"

namespace shardscope::eager {

struct HeldTensor {
  Tensor tensor;
  MemoryCategory category = MemoryCategory::temporaries;
  std::string name;
};

}  // namespace shardscope::eager
