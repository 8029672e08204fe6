#include "cli/report_folded.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

#include "cli/whole_traces.h"
#include "core/base/error.h"
#include "traces/analysis.h"
#include "traces/flame_stacks.h"
#include "traces/import/snapshot_stacks.h"
#include "traces/match/host_stacks.h"

namespace shardscope {
namespace {

struct NamedStacks {
  std::string name;  ///< "rank 0"
  std::vector<FlameStack> stacks;
};

std::vector<FlameStack> stacks_of(const std::filesystem::path& from, const ImportedTrace& trace) {
  const std::optional<Trace> own = own_trace(from, trace);
  if (!own) return host_stacks(trace, typical_host_step(trace));
  const std::vector<StepWindow> steps = step_windows(*own);
  return time_stacks(*own, steps.empty() ? device_window(*own) : steps[steady_step(steps)].window);
}

std::vector<NamedStacks> times_of(const Imported& imported, const std::filesystem::path& from) {
  std::vector<NamedStacks> all;
  for (const ImportedTrace& trace : imported.traces)
    all.push_back(
        {trace.rank ? fmt::format("rank {}", *trace.rank) : trace.file, stacks_of(from, trace)});
  return all;
}

std::vector<NamedStacks> memory_of(const Imported& imported) {
  std::vector<NamedStacks> all;
  for (const MemorySnapshot& snapshot : imported.snapshots)
    for (const std::int64_t device : snapshot.devices())
      all.push_back(
          {fmt::format("{}, device {}", snapshot.file, device), snapshot_stacks(snapshot, device)});
  return all;
}

}  // namespace

std::string folded_report(const Imported& imported, const std::filesystem::path& from) {
  std::vector<NamedStacks> all =
      imported.traces.empty() ? memory_of(imported) : times_of(imported, from);
  std::vector<FlameStack> stacks;
  for (NamedStacks& named : all) {
    for (FlameStack& stack : named.stacks) {
      if (all.size() > 1) stack.frames.insert(stack.frames.begin(), named.name);
      stacks.push_back(std::move(stack));
    }
  }
  std::string text = folded_text(stacks);
  if (text.empty())
    throw Error({.where = "--folded",
                 .what = fmt::format("{} has neither operations nor blocks of memory to fold",
                                     from.string()),
                 .way_out = "give a trace of PyTorch's profiler, a run folder or a CUDA memory "
                            "snapshot"});
  return text;
}

}  // namespace shardscope
