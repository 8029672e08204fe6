#include "traces/match/memory_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/median.h"
#include "traces/analysis.h"
#include "traces/import/memory_activity.h"

namespace shardscope {
namespace {

constexpr std::int64_t type_of_cpu = 0;

struct Peak {
  Bytes before, most;
  Bytes rise() const { return most - before; }
};

std::optional<std::uint32_t> device_of(const ImportedTrace& trace) {
  std::optional<std::uint32_t> cpu;
  for (std::uint32_t i = 0; i < trace.memory_devices.size(); ++i) {
    if (trace.memory_devices[i].type != type_of_cpu) return i;
    cpu = i;
  }
  return cpu;
}

std::optional<Peak> profiled_peak(const ImportedTrace& trace,
                                  const std::vector<MemoryChange>& changes, TimeWindow window) {
  const auto first =
      std::partition_point(changes.begin(), changes.end(), [&](const MemoryChange& change) {
        return trace.events.start_ns[change.event] < window.begin.ns;
      });
  if (first == changes.end()) return std::nullopt;
  Peak peak{.before = first->allocated - first->bytes};
  peak.most = peak.before;
  for (auto change = first; change != changes.end(); ++change) {
    if (trace.events.start_ns[change->event] >= window.end.ns) break;
    peak.most = std::max(peak.most, change->allocated);
  }
  return peak;
}

Bytes live_at(const Trace& trace, Duration time) {
  const auto behind =
      std::partition_point(trace.memory.begin(), trace.memory.end(),
                           [&](const MemorySample& sample) { return sample.time <= time; });
  return behind == trace.memory.begin() ? Bytes{} : (behind - 1)->live.total();
}

std::string source_of(const MemoryDevice& device) {
  if (device.type == type_of_cpu) return "[memory] events of the CPU";
  return fmt::format("[memory] events of GPU {}", device.id);
}

}  // namespace

Bytes predicted_peak(const Trace& predicted) {
  Bytes most;
  for (const StepWindow& step : step_windows(predicted))
    most = std::max(most, memory_peak(predicted, step.window).total);
  return most;
}

std::optional<MemoryErrors> memory_errors(const Trace& predicted, const ImportedTrace& profiled,
                                          const RankMatch& match) {
  const auto device = device_of(profiled);
  if (!device || predicted.memory.empty()) return std::nullopt;
  const std::vector<MemoryChange> changes = memory_changes(profiled, *device);
  const std::vector<StepWindow> windows = step_windows(predicted);
  std::vector<Bytes> predicted_rises, profiled_rises;
  SideBySide<Bytes> peak;
  for (const StepPair& pair : match.steps) {
    const auto window = std::find_if(windows.begin(), windows.end(), [&](const StepWindow& step) {
      return step.step == pair.predicted;
    });
    const auto seen = profiled_peak(profiled, changes, pair.profiled.window);
    if (window == windows.end() || !seen) continue;
    const Bytes most = memory_peak(predicted, window->window).total;
    predicted_rises.push_back(most - live_at(predicted, window->window.begin));
    profiled_rises.push_back(seen->rise());
    peak.predicted.value = std::max(peak.predicted.value, most);
    peak.profiled.value = std::max(peak.profiled.value, seen->most);
  }
  if (predicted_rises.empty()) return std::nullopt;
  MemoryErrors errors{.source = source_of(profiled.memory_devices[*device])};
  errors.rise = SideBySide<Bytes>{{lower_median(std::move(predicted_rises))},
                                  {lower_median(std::move(profiled_rises))}};
  if (profiled.memory_devices[*device].type != type_of_cpu) errors.peak = peak;
  return errors;
}

}  // namespace shardscope
