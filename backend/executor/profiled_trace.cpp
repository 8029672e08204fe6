#include "backend/executor/profiled_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "traces/analysis.h"
#include "traces/operation_spans.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

class TraceBuilder {
 public:
  TraceBuilder(const Executor& executor, const RecordingPlace& place)
      : executor_(executor),
        schedule_(executor.schedule()),
        base_ns_(place.base_monotonic_ns),
        trace_(start_trace(schedule_, TraceKind::profiled)),
        resting_(resting_bytes(schedule_)) {
    trace_.local_rank = place.local_rank;
    trace_.arena = executor.arena_bytes();
    trace_.base_ns = place.base_wall_ns;
    trace_.device = place.device;
    add_host_track();
    for (std::size_t i = 0; i < stream_count; ++i)
      track_by_stream_[i] = track_of(trace_, static_cast<Stream>(i));
  }

  void add_annotation(const RecordedStep& step) {
    trace_.names.push_back(fmt::format("ProfilerStep#{}", step.step));
    trace_.spans.push_back({.start = since_base(step.begin_ns),
                            .duration = {step.end_ns - step.begin_ns},
                            .name = static_cast<std::uint32_t>(trace_.names.size() - 1),
                            .track = track_by_stream_[static_cast<std::size_t>(Stream::host)],
                            .span_class = SpanClass::annotation,
                            .operation = {},
                            .step = static_cast<std::int32_t>(step.step)});
  }

  void add_operations(const RecordedStep& step) {
    CategoryBytes before = resting_;
    for (std::size_t i = 0; i < schedule_.operations.size(); ++i) {
      const Operation& operation = schedule_.operations[i];
      if (operation.phase == Phase::init) continue;
      const OperationId id = OperationId::of(i);
      add_span(operation, id, step);
      const CategoryBytes& live = executor_.live_bytes()[i];
      if (!(live == before))
        trace_.memory.push_back({since_base(step.operations[i].issued_ns), id, live});
      before = live;
    }
    trace_.memory.push_back({.time = since_base(step.end_ns), .operation = {}, .live = resting_});
  }

  Trace take() { return std::move(trace_); }

 private:
  void add_host_track() {
    if (track_of(trace_, Stream::host) < trace_.tracks.size()) return;
    trace_.tracks.push_back({.name = std::string(name_of(Stream::host)), .stream = Stream::host});
  }

  Duration since_base(std::int64_t ns) const { return {ns - base_ns_}; }

  void add_span(const Operation& operation, OperationId id, const RecordedStep& step) {
    const OperationTimes& times = step.operations[id.value];
    trace_.spans.push_back({.start = since_base(times.start_ns),
                            .duration = {times.end_ns - times.start_ns},
                            .name = operation.name,
                            .track = track_by_stream_[static_cast<std::size_t>(operation.stream)],
                            .span_class = span_class_of(operation.kind),
                            .operation = id,
                            .step = static_cast<std::int32_t>(step.step)});
  }

  const Executor& executor_;
  const Schedule& schedule_;
  std::int64_t base_ns_ = 0;
  Trace trace_;
  CategoryBytes resting_;
  std::array<std::uint16_t, stream_count> track_by_stream_{};
};

}  // namespace

Trace profiled_trace(const Executor& executor, std::span<const RecordedStep* const> steps,
                     const RecordingPlace& place) {
  TraceBuilder builder(executor, place);
  for (const RecordedStep* step : steps) {
    builder.add_annotation(*step);
    builder.add_operations(*step);
  }
  return builder.take();
}

Trace profiled_trace(const Executor& executor, std::string device, int local_rank) {
  return profiled_trace(executor, executor.recorder().steps(),
                        {.device = std::move(device),
                         .local_rank = local_rank,
                         .base_monotonic_ns = executor.recorder().base_monotonic_ns(),
                         .base_wall_ns = executor.recorder().base_wall_ns()});
}

Trace trace_of_replays(const Executor& executor, std::span<const RecordedStep* const> steps,
                       const RecordingPlace& place) {
  TraceBuilder builder(executor, place);
  for (const RecordedStep* step : steps) builder.add_annotation(*step);
  return builder.take();
}

void add_memory_of_replays(const Executor& executor, Trace& trace) {
  const Schedule& schedule = executor.schedule();
  const OperationSpans spans(trace);
  const CategoryBytes resting = resting_bytes(schedule);
  for (const StepWindow& step : step_windows(trace)) {
    CategoryBytes before = resting;
    for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
      const OperationId id = OperationId::of(i);
      const auto span = spans.find(step.step, id);
      if (!span || executor.live_bytes()[i] == before) continue;
      before = executor.live_bytes()[i];
      trace.memory.push_back({trace.spans[*span].start, id, before});
    }
    trace.memory.push_back({.time = step.window.end, .operation = {}, .live = resting});
  }
  std::ranges::stable_sort(trace.memory, {}, &MemorySample::time);
}

}  // namespace shardscope
