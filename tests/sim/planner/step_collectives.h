// Recorded steps (a file with `cases`), and the collectives of a schedule's last step as NCCL is
// asked for them, beside those of a recording.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope::planner {

inline nlohmann::json recorded_steps_in(const std::string& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

inline std::vector<std::size_t> places_of_cases(const nlohmann::json& recorded) {
  std::vector<std::size_t> all(recorded["cases"].size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

enum class WithDtype : std::uint8_t { no, yes };

/// What NCCL counts: of a gather what a rank gives, of a reduction to parts what it gets.
inline std::int64_t counted(OperationKind kind, const Collective& collective) {
  const bool gets = kind == OperationKind::reduce_scatter || kind == OperationKind::receive;
  return gets ? collective.elements_out : collective.elements_in;
}

/// "all_gather 0,1 4096", in the order in which the host issues them; "... float32" with the dtype.
inline std::vector<std::string> collectives_of_last_step(const Schedule& schedule,
                                                         WithDtype dtype = WithDtype::no) {
  std::vector<std::string> rows;
  const IndexRange step = schedule.steps.back().actions;
  for (std::uint32_t i = step.begin; i < step.end; ++i) {
    const HostAction& action = schedule.program.actions[i];
    if (!issues_operation(action.kind)) continue;
    const Operation& op = schedule.operations[action.subject];
    if (!is_collective(op.kind)) continue;
    const Collective& collective = schedule.collectives[op.detail];
    std::string ranks;
    for (const int rank : schedule.groups[collective.group.value].ranks.list())
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank);
    rows.push_back(fmt::format("{} {} {}", name_of(op.kind), ranks, counted(op.kind, collective)));
    if (dtype == WithDtype::yes) rows.back() += fmt::format(" {}", name_of(collective.dtype));
  }
  return rows;
}

/// The same of lists [kind, ranks, elements] or [kind, ranks, elements, dtype].
inline std::vector<std::string> recorded_collectives(const nlohmann::json& list) {
  std::vector<std::string> rows;
  for (const nlohmann::json& one : list) {
    rows.push_back(fmt::format("{} {} {}", one[0].get<std::string>(), one[1].get<std::string>(),
                               one[2].get<std::int64_t>()));
    if (one.size() > 3) rows.back() += " " + one[3].get<std::string>();
  }
  return rows;
}

}  // namespace shardscope::planner
