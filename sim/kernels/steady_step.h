// Operations that are put between those of the step that stands for the run.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// The name of a copy that puts tokens in order behind the gather of their parts, or before they
/// are reduced (sim/megatron/tensor_parallel.h).
inline constexpr std::string_view copied_tokens = "copied tokens";

/// Appends what stands in the place of one action: most often the action and further ones.
using PutAction = std::function<void(std::uint32_t index, std::vector<HostAction>& actions)>;

/// Calls `put` for each action of the schedule's last step, by its index in the program. `put` may
/// add operations to the schedule; the step's ranges include them afterwards.
void rewrite_steady_step(Schedule& schedule, const PutAction& put);

/// The operation that `beside` launches, without what it does: no work, flops, shapes, operands.
Operation bare_operation(const Schedule& schedule, const HostAction& beside);
/// Adds the operation to the schedule, and its launch on that lane to `actions`.
void add_launch(Schedule& schedule, const Operation& operation, std::uint8_t lane,
                std::vector<HostAction>& actions);

}  // namespace shardscope
