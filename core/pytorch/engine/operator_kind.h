// What kind of operator a name stands for.
#pragma once

#include <string_view>

#include "core/pytorch/engine/observer.h"

namespace shardscope::eager {

/// Of "aten.sum.dim_IntList", by its words; a name that says nothing is pointwise. Which operators
/// return views follows from their tensors, not from here.
OperatorKind kind_of_operator(std::string_view name);

}  // namespace shardscope::eager
