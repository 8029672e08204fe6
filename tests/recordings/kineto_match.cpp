#include "tests/recordings/kineto_match.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "core/pytorch/runtimes/training/run_settings.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/match/match.h"

namespace shardscope::recordings {
namespace {

using Strings = std::vector<std::string>;

/// Times of this machine mean nothing here: what is compared is what runs, in which order.
constexpr const char* any_machine = "h100_sxm";

Trace predicted_for(const eager::RunSettings& run) {
  const Schedule schedule = eager::recorded_schedule(
      run.model, run.config, run.setup, {}, {.labels = eager::steps_until_steady(run.setup)});
  return simulate(schedule, find_hardware_profile(any_machine, "check_recordings")).trace;
}

Strings sorted(Strings names) {
  std::sort(names.begin(), names.end());
  return names;
}

/// Buckets of DDP have no names that a trace could have.
std::string names_difference(const JsonValue& settings, const RankMatch& match) {
  Strings recorded, matched;
  for (const JsonValue& unit : settings.at("units").elements())
    recorded.push_back(unit.at("name").string());
  for (const UnitPair& unit : match.units) matched.push_back(unit.name);
  const bool same = match.runtime == ProfiledRuntime::ddp ? recorded.size() == matched.size()
                                                          : sorted(recorded) == sorted(matched);
  return same ? std::string()
              : fmt::format("match: {} units are recorded, {} are predicted, or others",
                            recorded.size(), matched.size());
}

std::string rank_difference(const JsonValue& settings, const ImportedTrace& trace) {
  const eager::RunSettings run = eager::read_run_settings(settings, trace.rank.value_or(0));
  const RankMatch result = match(predicted_for(run), trace, run.runtime);
  if (result.complete()) return names_difference(settings, result);
  const std::string where = fmt::format("match of rank {}", result.rank.value_or(0));
  for (const MatchDifference& difference : result.differences)
    if (difference.what != "compute")
      return fmt::format("{}: {} {}: predicted \"{}\", profiled \"{}\"", where, difference.step,
                         difference.what, difference.predicted, difference.profiled);
  return where + " is not complete";
}

}  // namespace

std::string match_difference(const std::filesystem::path& settings,
                             const std::vector<ImportedTrace>& traces) {
  const JsonValue json = JsonValue::read_file(settings, DuplicateKeys::last_wins);
  for (const ImportedTrace& trace : traces) {
    std::string difference = rank_difference(json, trace);
    if (!difference.empty()) return difference;
  }
  return {};
}

}  // namespace shardscope::recordings
