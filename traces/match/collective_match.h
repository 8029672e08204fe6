// Which predicted collective is which profiled one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/match/predicted_schedule.h"
#include "traces/match/profiled_collectives.h"
#include "traces/match/sequence_match.h"

namespace shardscope {

/// Of one step. `unit_names` are the predicted names of ProfiledUnits::units(), where they are
/// known.
SequenceMatch match_collectives(const std::vector<PredictedOperation>& predicted,
                                const std::vector<ProfiledCollective>& profiled,
                                const std::vector<std::optional<std::string>>& unit_names);

/// "all_gather of 7584 elements in, 15168 out, float32, 2 ranks, transformer.h.0"
std::string text_of(const OperationFacts& facts);
std::string text_of(const ProfiledCollective& collective);

}  // namespace shardscope
