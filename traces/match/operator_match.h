// Which predicted operator is which profiled one.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "traces/match/predicted_schedule.h"
#include "traces/match/profiled_operators.h"
#include "traces/match/sequence_match.h"

namespace shardscope {

/// As a trace names an operator: "aten.addmm.default" is "aten::addmm".
std::string traced_name(std::string_view schema);

/// Names of all operators of the schedule, as a trace has them.
std::set<std::string, std::less<>> traced_names(const PredictedSchedule& schedule);

/// Of one step, by name and shapes. A trace that was recorded without shapes, and lists of more
/// than 30 tensors, have none. `trace` is the predicted one.
SequenceMatch match_operators(const Trace& trace, const std::vector<PredictedOperation>& predicted,
                              const std::vector<ProfiledOperator>& profiled);

/// "aten.addmm of 36 32x36 36x108 in transformer.h.0.attn.c_attn", "aten::mm of 32x40 40x40"
std::string text_of(const Trace& trace, const OperationFacts& facts);
std::string text_of(const ProfiledOperator& op);

}  // namespace shardscope
