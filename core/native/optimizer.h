// The last pass of a native step: the gradient norm, clipping, the optimizer, and the gather of
// what it updated.
#pragma once

#include "core/native/native_step.h"
#include "core/schedule/schedule_builder.h"

namespace shardscope {

/// Adds the operations of the phases clip and optimizer; none where nothing is trained. The units
/// of `storage` hold reduced gradients.
void add_optimizer(const NativeStep& step, const NativeStorage& storage, ScheduleBuilder& builder);

}  // namespace shardscope
