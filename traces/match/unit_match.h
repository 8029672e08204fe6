// Which predicted unit is which unit of a trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/match/match.h"
#include "traces/match/predicted_schedule.h"
#include "traces/match/profiled_collectives.h"
#include "traces/match/profiled_units.h"

namespace shardscope {

using KnownNames = std::vector<std::optional<std::string>>;

/// The predicted name of each profiled unit, where it has one. FSDP2 says it; of FSDP1 the units
/// are the predicted ones in their order, where both have as many and are nested alike, and where
/// what `seen` has of a unit agrees in its elements. A root that has no parameters of its own is in
/// the trace but no unit.
KnownNames names_of_units(const PredictedSchedule& predicted, const ProfiledUnits& profiled,
                          const std::vector<const ProfiledCollective*>& seen);

/// `names`: as names_of_units gives them.
std::vector<UnitPair> units_by_annotations(const std::vector<std::string>& predicted,
                                           const ProfiledUnits& profiled, const KnownNames& names);
/// Units of the trace that are none of the predicted ones, in words.
std::vector<std::string> units_left_over(const std::vector<std::string>& predicted,
                                         const ProfiledUnits& profiled, const KnownNames& names);

/// The trace's collectives without counterpart, by step.
using LeftOverCollectives = std::vector<std::vector<const ProfiledCollective*>>;

/// Says which unit each pair of the match works for, by the predicted one's.
void add_units_of_pairs(const Trace& trace, RankMatch& match);

/// Where no annotation tells units apart: fills in buckets of DDP, each found by its all-reduce in
/// every step, from the pairs of collectives. Returns, in words, DDP's all-reduces that are left
/// over: buckets that were not predicted.
std::vector<std::string> match_buckets(const PredictedSchedule& predicted,
                                       const LeftOverCollectives& left_over, RankMatch& match);

/// "the root", "layers.0"
std::string unit_text(const std::string& name);

}  // namespace shardscope
