#include "cli/run_observations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/native_scenario.h"
#include "core/base/error.h"
#include "core/native/job.h"
#include "traces/chrome_reader.h"
#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {
namespace {

bool is_kernel(const Operation& op) {
  return op.kind == OperationKind::compute || op.kind == OperationKind::optimizer;
}

struct Run {
  Schedule schedule;
  std::vector<Trace> traces;  ///< by rank
};

Run read_run_of(const RunFolder& folder, const HardwareProfile& profile) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder.trace(0), ignored))
    throw Error({.where = folder.root.string(),
                 .what = "has no trace.0.json.gz: nothing of it was profiled",
                 .way_out = "give a folder that `shardscope train` left"});
  const Job job = read_job(folder.job());
  if (job.device != profile.device)
    throw Error({.where = folder.root.string(),
                 .what = fmt::format("ran on {}, and the profile {} is of {}", job.device,
                                     profile.name, profile.device),
                 .way_out = "give the profile of that device with --cluster"});
  Run run{.schedule = schedule_of(native_scenario_of(job, job.ranks, 0),
                                  {.kind = job.device, .threads = job.threads})};
  for (int rank = 0; rank < job.ranks && std::filesystem::exists(folder.trace(rank), ignored);
       ++rank)
    run.traces.push_back(read_chrome_trace(folder.trace(rank)).trace);
  return run;
}

/// The operation of a span; none of what is no operation of the schedule.
const Operation* operation_of(const Run& run, const Trace& trace, const Span& span) {
  if (!span.operation || trace.name(span).starts_with("ProfilerStep")) return nullptr;
  const auto& operations = run.schedule.operations;
  if (span.operation.value < operations.size()) return &run.schedule.at(span.operation);
  throw Error({.where = fmt::format("trace of rank {}", trace.rank),
               .what = fmt::format("has operation {}, and its job's schedule has {}",
                                   span.operation.value, operations.size()),
               .way_out = "train again with this version"});
}

bool has_several_steps(const Trace& trace) {
  return std::ranges::any_of(trace.spans, [](const Span& span) { return span.step > 1; });
}

void observe_kernels(const Run& run, const Trace& trace, int first_step,
                     Observed<Kernel>& observed) {
  std::vector<TimeWindow> windows;
  for (const Span& span : trace.spans)
    if (span.span_class == SpanClass::communication) windows.push_back({span.start, span.end()});
  const IntervalUnion communication(std::move(windows));
  std::vector<Timing> alone, beside;
  for (const Span& span : trace.spans) {
    const Operation* op = operation_of(run, trace, span);
    if (op == nullptr || !is_kernel(*op) || op->detail == Operation::no_kernel) continue;
    if (span.step < first_step || span.duration.ns <= 0) continue;
    const Timing timing{subject_of(observed, cost_key(run.schedule.kernels[op->detail])), span.step,
                        span.duration};
    const bool is_alone = communication.covered({span.start, span.end()}).ns == 0;
    (is_alone ? alone : beside).push_back(timing);
  }
  std::vector<bool> ran_alone(observed.subjects.size());
  for (const Timing& timing : alone) ran_alone[timing.subject] = true;
  observed.timings.insert(observed.timings.end(), alone.begin(), alone.end());
  std::ranges::copy_if(beside, std::back_inserter(observed.timings),
                       [&](const Timing& timing) { return !ran_alone[timing.subject]; });
}

/// Of one operation in one step: the shortest over ranks is that of the rank that came last.
void observe_collectives(const Run& run, int first_step, Observed<ObservedCollective>& observed) {
  std::map<std::pair<int, OperationId>, Duration> shortest;
  for (const Trace& trace : run.traces)
    for (const Span& span : trace.spans) {
      const Operation* op = operation_of(run, trace, span);
      if (op == nullptr || !is_collective(op->kind) || span.step < first_step) continue;
      const auto [known, is_new] = shortest.try_emplace({span.step, span.operation}, span.duration);
      if (!is_new) known->second = std::min(known->second, span.duration);
    }
  for (const auto& [key, time] : shortest) {
    const Operation& op = run.schedule.at(key.second);
    const Collective& collective = run.schedule.collectives[op.detail];
    const auto ranks = static_cast<int>(run.schedule.groups[collective.group.value].ranks.size());
    if (ranks < 2 || op.bytes <= Bytes{} || time.ns <= 0) continue;
    observed.timings.push_back(
        {subject_of(observed, ObservedCollective{op.kind, ranks, op.bytes}), key.first, time});
  }
}

}  // namespace

RunObservations observe_run(const RunFolder& folder, const HardwareProfile& profile) {
  const Run run = read_run_of(folder, profile);
  const int first_step = has_several_steps(run.traces.front()) ? 2 : 0;
  RunObservations observations{.collectives_are_samples = true};
  for (const Trace& trace : run.traces)
    observe_kernels(run, trace, first_step, observations.kernels);
  observe_collectives(run, first_step, observations.collectives);
  return observations;
}

}  // namespace shardscope
