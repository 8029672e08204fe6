#include "backend/executor/profiled_trace.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

class TraceBuilder {
 public:
  TraceBuilder(const Executor& executor, Trace trace)
      : executor_(executor),
        schedule_(executor.schedule()),
        trace_(std::move(trace)),
        resting_(resting_bytes(schedule_)) {
    add_host_track();
    for (std::size_t i = 0; i < stream_count; ++i)
      track_by_stream_[i] = track_of(trace_, static_cast<Stream>(i));
  }

  void add(const RecordedStep& step) {
    add_annotation(step);
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

  Duration since_base(std::int64_t ns) const {
    return {ns - executor_.recorder().base_monotonic_ns()};
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
  Trace trace_;
  CategoryBytes resting_;
  std::array<std::uint16_t, stream_count> track_by_stream_{};
};

}  // namespace

Trace profiled_trace(const Executor& executor, std::string device, int local_rank) {
  Trace trace = start_trace(executor.schedule(), TraceKind::profiled);
  trace.local_rank = local_rank;
  trace.arena = executor.arena_bytes();
  trace.base_ns = executor.recorder().base_wall_ns();
  trace.device = std::move(device);
  TraceBuilder builder(executor, std::move(trace));
  for (const RecordedStep* step : executor.recorder().steps()) builder.add(*step);
  return builder.take();
}

}  // namespace shardscope
