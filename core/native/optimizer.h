// The last pass of a native step: the gradient norm, clipping, the optimizer, and the gather of
// what it updated.
#pragma once

#include <vector>

#include "core/native/native_step.h"
#include "core/schedule/schedule_builder.h"

namespace shardscope {

/// Adds the operations of the phases clip and optimizer; none where nothing is trained. The units
/// of `storage` hold reduced gradients.
void add_optimizer(const NativeStep& step, const NativeStorage& storage, ScheduleBuilder& builder);

/// By parameter of the model, the number of its group in optimizer.groups; -1: it is in none.
std::vector<int> groups_of_parameters(const Model& model, const Optimizer& optimizer);

}  // namespace shardscope
