#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "traces/differences.h"

namespace shardscope {
namespace {

/// Rows of cells as columns, each as wide as its widest cell; the first and the last one to the
/// left.
std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += "  ";
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}  ", row[i], widths[i])
                     : fmt::format("{:>{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

std::string steps_text(const std::vector<int>& steps) {
  if (steps.empty()) return "no step";
  if (steps.size() == 1) return fmt::format("step {}", steps.front());
  const bool is_row = steps.back() - steps.front() + 1 == static_cast<int>(steps.size());
  return is_row ? fmt::format("steps {}-{}", steps.front(), steps.back())
                : fmt::format("{} steps from {} to {}", steps.size(), steps.front(), steps.back());
}

std::string signed_text(Duration time) {
  return time.ns < 0 ? "-" + rounded_text(Duration{-time.ns}) : "+" + rounded_text(time);
}

/// The row's figures are of all of these steps together.
std::string time_title(std::size_t steps) {
  return steps > 1 ? fmt::format("time of all {} steps", steps) : "time";
}

std::string ranks_text(const Differences& differences) {
  std::vector<std::vector<std::string>> rows{{"rank", time_title(differences.steps.size()),
                                              "compute", "exposed communication", "exposed copies",
                                              "idle"}};
  for (const RankTime& rank : differences.ranks) {
    rows.push_back({fmt::to_string(rank.rank), rounded_text(rank.time.span),
                    rounded_text(rank.time.compute), rounded_text(rank.time.exposed_communication),
                    rounded_text(rank.time.exposed_copy), rounded_text(rank.time.idle)});
  }
  return columns(rows);
}

std::string missing_text(const Differences& differences) {
  std::string text;
  for (const MissingTrace& one : differences.missing)
    text += fmt::format("  no trace of rank {}: {}\n", one.rank, one.reason);
  return text;
}

std::string last_text(const PeerWaitTotals& waits) {
  std::vector<std::string> parts;
  for (const auto& [rank, times] : waits.times_last)
    parts.push_back(fmt::format("rank {} {} times", rank, times));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string waits_text(const Differences& differences) {
  std::vector<std::vector<std::string>> rows{
      {"rank", "collectives", "wait for peers", "move bytes", "payload", "came last there"}};
  for (const RankTime& rank : differences.ranks) {
    if (!rank.waits) continue;
    rows.push_back({fmt::to_string(rank.rank), fmt::to_string(rank.waits->collectives),
                    rounded_text(rank.waits->waiting), rounded_text(rank.waits->moving),
                    rounded_text(rank.waits->bytes), last_text(*rank.waits)});
  }
  if (rows.size() == 1) return "";
  return columns(rows) +
         "  (came last there: which rank the others waited for, and how many of the row's "
         "collectives)\n";
}

std::string memory_text(const Differences& differences) {
  const std::vector<MemoryHolder>& memory = differences.recording.memory;
  if (memory.empty()) return "";
  const auto cell = [](const std::optional<Bytes>& bytes) {
    return bytes ? rounded_text(*bytes) : std::string();
  };
  std::vector<std::vector<std::string>> rows{
      {"memory", "planned", "held", "its own count", "holder"}};
  for (const MemoryHolder& holder : memory) {
    rows.push_back({std::string(name_of(holder.place)), cell(holder.planned), cell(holder.held),
                    cell(holder.recorded), holder.owner});
    if (!holder.planned) continue;
    for (const MemoryCategory category : memory_categories) {
      const Bytes live = differences.at_peak[category];
      if (live > Bytes{})
        rows.push_back(
            {"", rounded_text(live), "", "", fmt::format("  {}, at the peak", name_of(category))});
    }
  }
  return columns(rows) + fmt::format(
                             "  (rank {}'s; planned: by the schedule; held: as the system or the "
                             "device counts; its "
                             "own count: as the holder's own records say)\n",
                             differences.ranks.front().rank);
}

std::string recording_text(const RecordingFacts& recording) {
  std::string text;
  if (recording.clock_residual) {
    text += fmt::format("  clocks: {}, {}\n", recording.clock,
                        *recording.clock_residual == Duration{}
                            ? "one clock"
                            : "within " + rounded_text(*recording.clock_residual));
  }
  if (recording.dropped_records > 0)
    text += fmt::format("  {} records were lost\n", recording.dropped_records);
  for (const std::string& note : recording.notes) text += fmt::format("  {}\n", note);
  return text;
}

std::string cause_text(const Cause& cause) {
  if (cause.kind == DifferenceCause::unknown) return "unknown";
  return fmt::format("{}: {}", name_of(cause.kind), cause.reason);
}

std::string largest_text(const Differences& differences) {
  const int rank = differences.ranks.front().rank;
  if (differences.largest.empty())
    return fmt::format("  none of {} operations of rank {} differs\n",
                       differences.operations.size(), rank);
  std::vector<std::vector<std::string>> rows{
      {fmt::format("largest differences of rank {}'s {} operations", rank,
                   differences.operations.size()),
       "predicted", "profiled", "predicted - profiled", "likely cause"}};
  for (const OperationDifference& one : differences.largest) {
    rows.push_back({one.name, rounded_text(one.total().predicted.value),
                    rounded_text(one.total().profiled.value), signed_text(one.difference()),
                    cause_text(one.cause)});
  }
  return columns(rows);
}

std::string one_sided_text(const Differences& differences) {
  if (differences.only_predicted + differences.only_profiled == 0) return "";
  return fmt::format("  {} operations were only predicted, {} only profiled\n",
                     differences.only_predicted, differences.only_profiled);
}

}  // namespace

std::string to_text(const Differences& differences) {
  std::string text = fmt::format("{}\n", steps_text(differences.steps));
  text += ranks_text(differences) + missing_text(differences) + waits_text(differences) +
          memory_text(differences) + recording_text(differences.recording);
  if (!differences.has_prediction) return text + "  nothing was predicted for this machine\n";
  const auto error = error_share(differences.step_time);
  text += fmt::format("  a step: {} predicted, {} profiled{}\n",
                      rounded_text(differences.step_time.predicted.value),
                      rounded_text(differences.step_time.profiled.value),
                      error ? fmt::format(", {:+.1f}%", *error * 100) : "");
  const SideBySide<Duration>& exposed = differences.exposed_communication;
  text += fmt::format(
      "  exposed communication of a step: {} predicted, {} profiled (mean of the ranks, median of "
      "the steps)\n",
      rounded_text(exposed.predicted.value), rounded_text(exposed.profiled.value));
  return text + largest_text(differences) + one_sided_text(differences);
}

}  // namespace shardscope
