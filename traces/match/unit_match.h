// Which predicted unit is which unit of a trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/match/match.h"
#include "traces/match/predicted_schedule.h"
#include "traces/match/profiled_units.h"

namespace shardscope {

/// The predicted name of each profiled unit, where it has one. FSDP2 says it; of FSDP1 the units
/// are the predicted ones in their order, where both have as many and are nested alike. A root
/// that has no parameters of its own is in the trace but no unit.
std::vector<std::optional<std::string>> names_of_units(const std::vector<std::string>& predicted,
                                                       const ProfiledUnits& profiled);

std::vector<UnitPair> units_by_annotations(const std::vector<std::string>& predicted,
                                           const ProfiledUnits& profiled);
/// Units of the trace that are none of the predicted ones, in words.
std::vector<std::string> units_left_over(const std::vector<std::string>& predicted,
                                         const ProfiledUnits& profiled);

/// Where no annotation tells units apart: buckets of DDP, each by its all-reduce in every step.
/// `match` has the collectives' pairs already.
std::vector<UnitPair> units_by_collectives(const Trace& trace, const PredictedSchedule& predicted,
                                           const RankMatch& match);

/// "the root", "layers.0"
std::string unit_text(const std::string& name);

}  // namespace shardscope
