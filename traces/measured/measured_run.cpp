#include "traces/measured/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace shardscope {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t warm_up = 1;  // intervals
constexpr std::size_t needed_for_it = 3;

/// "perf/step_time_s" without what stands before the last "/".
std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
}

/// Seconds of one unit that a name ends with; none where it says no unit of time.
std::optional<double> time_unit(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, double>, 9> units{{{"_ms", 1e-3},
                                                                      {"(ms)", 1e-3},
                                                                      {"_us", 1e-6},
                                                                      {"_s", 1},
                                                                      {"(s)", 1},
                                                                      {"_sec", 1},
                                                                      {"_secs", 1},
                                                                      {"_seconds", 1},
                                                                      {"-seconds", 1}}};
  for (const auto& [ending, seconds] : units)
    if (name.ends_with(ending)) return seconds;
  return std::nullopt;
}

/// Seconds of one unit of a series that holds times of steps.
std::optional<double> step_time_unit(std::string_view full_name) {
  const std::string_view name = last_part(full_name);
  if (name == "iteration-time") return 1;  // Megatron-LM's, in seconds
  constexpr std::array words{"step_time"sv, "time_per_step"sv,      "iteration_time"sv,
                             "iter_time"sv, "time_per_iteration"sv, "end_to_end"sv};
  const bool is_time = std::any_of(words.begin(), words.end(),
                                   [&](std::string_view word) { return name.starts_with(word); });
  return is_time ? time_unit(name) : std::nullopt;
}

std::optional<double> byte_unit(std::string_view name) {
  constexpr double kib = 1024;
  constexpr std::array<std::pair<std::string_view, double>, 11> units{
      {{"Bytes", 1},
       {"_bytes", 1},
       {"[bytes]", 1},
       {"[MiB]", kib * kib},
       {"(MiB)", kib * kib},
       {"_mib", kib * kib},
       {"(GiB)", kib * kib * kib},
       {"_gib", kib * kib * kib},
       {".fb", kib * kib},  // of dmon: its MB are 2^20
       {"_gb", 1e9},
       {"_mb", 1e6}}};
  for (const auto& [ending, bytes] : units)
    if (name.ends_with(ending)) return bytes;
  return std::nullopt;
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

/// Whose memory a series counts, by the words of its program.
std::optional<MeasuredMemoryKind> memory_kind(MetricFormat format, std::string_view name) {
  switch (format) {
    case MetricFormat::nvidia_smi:
      if (has(name, "memory.used") || has(name, "used_gpu_memory") || has(name, "used_memory") ||
          name.ends_with(".fb"))
        return MeasuredMemoryKind::device;
      return std::nullopt;
    case MetricFormat::slurm:
      if (has(name, "gpumem")) return MeasuredMemoryKind::device;
      return has(name, "MaxRSS") ? std::optional(MeasuredMemoryKind::host) : std::nullopt;
    default:
      break;
  }
  if (name.starts_with("system.gpu.") && name.ends_with("memoryAllocatedBytes"))
    return MeasuredMemoryKind::device;
  if (name.starts_with("system.")) return std::nullopt;
  if (!has(name, "memory") && !has(name, "mem_") && !has(name, "max_")) return std::nullopt;
  if (has(name, "reserved")) return MeasuredMemoryKind::reserved;
  if (has(name, "active")) return MeasuredMemoryKind::active;
  if (has(name, "allocated")) return MeasuredMemoryKind::allocated;
  return std::nullopt;
}

/// Of values in rising order.
double at_share(const std::vector<double>& values, double share) {
  return values[static_cast<std::size_t>(
      std::floor(share * static_cast<double>(values.size() - 1)))];
}

MeasuredStepTime step_time_of(std::vector<double> seconds, std::string source) {
  if (seconds.size() >= needed_for_it)
    seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(warm_up));
  std::sort(seconds.begin(), seconds.end());
  return {.median = Duration::from_seconds(at_share(seconds, 0.5)),
          .low = Duration::from_seconds(at_share(seconds, 0.05)),
          .high = Duration::from_seconds(at_share(seconds, 0.95)),
          .intervals = static_cast<std::int64_t>(seconds.size()),
          .source = std::move(source)};
}

constexpr double longest_step_s = 1e6;

/// Seconds of a step between one entry and the next with a later step.
std::vector<double> intervals_of(const MetricSeries& series) {
  std::vector<double> seconds;
  const MetricPoint* before = nullptr;
  for (const MetricPoint& point : series.points) {
    if (!point.step || !point.time_s) continue;
    if (before != nullptr && *point.step > *before->step && *point.time_s > *before->time_s) {
      const double one =
          (*point.time_s - *before->time_s) / static_cast<double>(*point.step - *before->step);
      if (one < longest_step_s) seconds.push_back(one);
    }
    if (before == nullptr || *point.step != *before->step) before = &point;
  }
  return seconds;
}

std::optional<MeasuredStepTime> said_step_time(const std::vector<MetricLog>& logs) {
  for (const MetricLog& log : logs) {
    for (const MetricSeries& series : log.series) {
      const auto unit = step_time_unit(series.name);
      if (!unit) continue;
      std::vector<double> seconds;
      for (const MetricPoint& point : series.points)
        if (point.value > 0 && point.value * *unit < longest_step_s)
          seconds.push_back(point.value * *unit);
      if (!seconds.empty())
        return step_time_of(std::move(seconds), fmt::format("{}: {}", log.file, series.name));
    }
  }
  return std::nullopt;
}

std::optional<MeasuredStepTime> step_time_between_entries(const std::vector<MetricLog>& logs) {
  std::vector<double> longest;
  std::string source;
  for (const MetricLog& log : logs) {
    if (log.format != MetricFormat::tensorboard && log.format != MetricFormat::wandb) continue;
    for (const MetricSeries& series : log.series) {
      if (series.points.size() <= longest.size()) continue;
      std::vector<double> seconds = intervals_of(series);
      if (seconds.size() <= longest.size()) continue;
      longest = std::move(seconds);
      source = fmt::format("{}: times between the entries of {}", log.file, series.name);
    }
  }
  if (longest.empty()) return std::nullopt;
  return step_time_of(std::move(longest), std::move(source));
}

/// The larger of the two; an equal one later on changes nothing.
void take(std::vector<MeasuredMemory>& all, MeasuredMemory found) {
  const auto same = std::find_if(all.begin(), all.end(),
                                 [&](const MeasuredMemory& one) { return one.kind == found.kind; });
  if (same == all.end())
    all.push_back(std::move(found));
  else if (found.bytes > same->bytes)
    *same = std::move(found);
}

void take_memory(const MetricLog& log, MeasuredRun& run) {
  constexpr double most_bytes = 1e18;
  for (const MetricSeries& series : log.series) {
    const auto kind = memory_kind(log.format, series.name);
    if (!kind) continue;
    const auto unit = byte_unit(series.name);
    if (!unit) {
      run.notes.push_back(
          fmt::format("{}: {} says no unit, so that it was left out", log.file, series.name));
      continue;
    }
    double most = 0;
    for (const MetricPoint& point : series.points) most = std::max(most, point.value * *unit);
    if (most <= 0 || most > most_bytes) continue;
    take(run.memory, {.kind = *kind,
                      .bytes = Bytes{std::llround(most)},
                      .samples = static_cast<std::int64_t>(series.points.size()),
                      .source = fmt::format("{}: {}", log.file, series.name)});
  }
}

/// The longest of a job and its steps.
std::optional<Duration> elapsed_in(const std::vector<MetricLog>& logs) {
  constexpr double longest_s = 1e9;
  double most = 0;
  for (const MetricLog& log : logs) {
    if (log.format != MetricFormat::slurm) continue;
    for (const MetricSeries& series : log.series)
      if (has(series.name, "Elapsed"))
        for (const MetricPoint& point : series.points)
          most = std::max(most, std::min(point.value, longest_s));
  }
  if (most <= 0) return std::nullopt;
  return Duration::from_seconds(most);
}

}  // namespace

std::string_view name_of(MeasuredMemoryKind kind) {
  constexpr std::array names{"device"sv, "reserved"sv, "active"sv, "allocated"sv, "host"sv};
  return names[static_cast<std::size_t>(kind)];
}

MeasuredRun measured_run(const std::vector<MetricLog>& logs) {
  MeasuredRun run;
  for (const MetricLog& log : logs)
    for (const std::string& note : log.notes)
      run.notes.push_back(fmt::format("{}: {}", log.file, note));
  run.step_time = said_step_time(logs);
  if (!run.step_time) run.step_time = step_time_between_entries(logs);
  for (const MetricLog& log : logs) take_memory(log, run);
  std::sort(run.memory.begin(), run.memory.end(),
            [](const auto& a, const auto& b) { return a.kind < b.kind; });
  run.elapsed = elapsed_in(logs);
  return run;
}

}  // namespace shardscope
