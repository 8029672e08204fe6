#include "backend/profile/recording_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/profile/device_instrument.h"
#include "core/schedule/schedule_builder.h"
#include "traces/compare.h"
#include "traces/launches.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr OperationId gather{0}, product{1};

/// An all-gather on its stream, then a kernel.
Schedule small_schedule() {
  Schedule schedule;
  schedule.names = {"all_gather", "product"};
  schedule.groups = {{.name = "world", .ranks = {}}};
  schedule.collectives = {{.group = GroupId::of(0)}};
  schedule.kernels = {AddKernel{.elements = 1}};
  schedule.operations = {{.name = 0, .kind = OperationKind::all_gather, .stream = Stream::unshard},
                         {.name = 1, .kind = OperationKind::compute, .stream = Stream::compute}};
  return schedule;
}

DeviceRecord record(RecordKind kind, std::int64_t start, std::int64_t end, OperationId operation,
                    std::int32_t step = 3) {
  return {.kind = kind,
          .start_ns = start,
          .end_ns = end,
          .stream = 21,
          .operation = operation,
          .step = step};
}

class RecordingTrace : public testing::Test {
 protected:
  Trace trace_of(std::vector<DeviceRecord> records) {
    recording_.records = std::move(records);
    Trace trace = start_trace(schedule_, TraceKind::profiled);
    add_recording(trace, schedule_, recording_, window_);
    return trace;
  }
  std::string track_of_span(const Trace& trace, std::size_t span) {
    return trace.tracks[trace.spans.at(span).track].name;
  }

  const Schedule schedule_ = small_schedule();
  const MeasuredWindow window_{.base_monotonic_ns = 1'000, .first_step = 3, .last_step = 4};
  DeviceRecording recording_{.names = {"k(float*)", "HtoD"}, .records = {}, .notes = {}};
};

TEST_F(RecordingTrace, AKernelStandsOnItsOperationsStreamUnderItsOwnName) {
  const Trace trace = trace_of({record(RecordKind::kernel, 1'200, 1'250, product)});
  ASSERT_EQ(trace.spans.size(), 1u);
  const Span& span = trace.spans[0];
  EXPECT_EQ(span.start, 200_ns);
  EXPECT_EQ(span.duration, 50_ns);
  EXPECT_EQ(trace.name(span), "k(float*)");
  EXPECT_EQ(trace.tracks[span.track].stream, Stream::compute);
  EXPECT_EQ(span.span_class, SpanClass::compute);
  EXPECT_EQ(span.operation, product);
  EXPECT_EQ(span.step, 3);
}

TEST_F(RecordingTrace, AllThatRunsForACollectiveIsCommunication) {
  const Trace trace = trace_of({record(RecordKind::kernel, 1'200, 1'250, gather),
                                record(RecordKind::copy, 1'260, 1'270, gather),
                                record(RecordKind::set, 1'280, 1'290, product)});
  ASSERT_EQ(trace.spans.size(), 3u);
  EXPECT_EQ(trace.spans[0].span_class, SpanClass::communication);
  EXPECT_EQ(trace.spans[1].span_class, SpanClass::communication);
  EXPECT_EQ(trace.tracks[trace.spans[1].track].stream, Stream::unshard);
  EXPECT_EQ(trace.spans[2].span_class, SpanClass::copy);
}

TEST_F(RecordingTrace, ACopySaysHowManyBytesItMoved) {
  DeviceRecord copy = record(RecordKind::copy, 1'260, 1'270, product);
  copy.bytes = 4'096;
  const Trace trace = trace_of({record(RecordKind::kernel, 1'200, 1'250, product), copy});
  EXPECT_EQ(measure_of(trace, 0, "bytes_moved"), std::nullopt);
  EXPECT_EQ(measure_of(trace, 1, "bytes_moved"), 4'096);
}

TEST_F(RecordingTrace, CompareJoinsTheKernelsOfAnOperation) {
  const auto with_step = [this](Trace trace) {
    trace.tracks.push_back({.name = "host", .stream = Stream::host});
    trace.names.push_back("ProfilerStep#3");
    trace.spans.push_back({.start = 0_ns,
                           .duration = 1'000_ns,
                           .name = static_cast<std::uint32_t>(trace.names.size() - 1),
                           .track = track_of(trace, Stream::host),
                           .span_class = SpanClass::annotation,
                           .operation = {},
                           .step = 3});
    return trace;
  };
  // 50 and 30 ns of one operation.
  const Trace ours = with_step(trace_of({record(RecordKind::kernel, 1'200, 1'250, product),
                                         record(RecordKind::kernel, 1'260, 1'290, product)}));
  const Trace predicted = with_step(trace_of({record(RecordKind::kernel, 1'100, 1'160, product)}));
  const Comparison comparison =
      compare(Predicted<const Trace&>{predicted}, Profiled<const Trace&>{ours});
  ASSERT_EQ(comparison.operations.size(), 1u);
  EXPECT_EQ(comparison.operations[0].duration.profiled.value, 80_ns);
  EXPECT_EQ(comparison.operations[0].duration.predicted.value, 60_ns);
}

TEST_F(RecordingTrace, WhatIsNotOursHasATrackOfItsOwnAndIsSaid) {
  const Trace trace = trace_of({record(RecordKind::kernel, 1'200, 1'250, {}, 0)});
  EXPECT_EQ(track_of_span(trace, 0), "stream 21, not ours");
  EXPECT_FALSE(trace.spans[0].operation);
  EXPECT_TRUE(is_on_device(trace, trace.spans[0]));
  EXPECT_THAT(trace.recording.notes,
              Contains("1 records of the device belong to no operation (50 ns)"));
}

TEST_F(RecordingTrace, AnOperationThatTheScheduleDoesNotHaveIsNotOurs) {
  const Trace trace = trace_of({record(RecordKind::kernel, 1'200, 1'250, OperationId{77})});
  EXPECT_EQ(track_of_span(trace, 0), "stream 21, not ours");
}

TEST_F(RecordingTrace, OtherStepsAreLeftOut) {
  EXPECT_TRUE(trace_of({record(RecordKind::kernel, 1'200, 1'250, product, 5)}).spans.empty());
}

TEST_F(RecordingTrace, WhatIsTimedAlreadyIsNotCountedTwice) {
  recording_.records = {record(RecordKind::kernel, 1'200, 1'250, product)};
  Trace trace = start_trace(schedule_, TraceKind::profiled);
  trace.spans.push_back({.start = 190_ns,
                         .duration = 70_ns,
                         .name = 1,
                         .track = track_of(trace, Stream::compute),
                         .operation = product,
                         .step = 3});
  add_recording(trace, schedule_, recording_, window_);
  ASSERT_EQ(trace.spans.size(), 2u);
  EXPECT_EQ(track_of_span(trace, 1), "kernels of compute");
  EXPECT_FALSE(is_on_device(trace, trace.spans[1]));
  EXPECT_EQ(trace.spans[1].operation, product);
}

TEST_F(RecordingTrace, TheHostsCallsAndWaitsAreOnItsTracks) {
  const Trace trace = trace_of({record(RecordKind::call, 1'200, 1'250, product),
                                record(RecordKind::synchronization, 1'300, 1'400, {}),
                                record(RecordKind::event, 1'350, 1'350, {})});
  ASSERT_EQ(trace.spans.size(), 2u);
  EXPECT_EQ(track_of_span(trace, 0), "calls");
  EXPECT_EQ(track_of_span(trace, 1), "waits");
  EXPECT_FALSE(is_on_device(trace, trace.spans[0]));
}

TEST_F(RecordingTrace, OnlyACallThatLaunchedSomethingIsItsOperations) {
  DeviceRecord asks = record(RecordKind::call, 1'100, 1'110, product);
  asks.correlation = 8;
  DeviceRecord launches = record(RecordKind::call, 1'120, 1'150, product);
  launches.correlation = 9;
  DeviceRecord kernel = record(RecordKind::kernel, 1'200, 1'250, product);
  kernel.correlation = 9;
  const Trace trace = trace_of({asks, launches, kernel});
  const LaunchTable table(trace);
  EXPECT_EQ(table.correlation_of_host(0), 0u);
  EXPECT_EQ(table.correlation_of_host(1), 3u);
}

TEST_F(RecordingTrace, AWindowLosesWhatWasTakenBeforeIt) {
  DeviceRecord given = record(RecordKind::release, 1'300, 1'300, {});
  given.bytes = 200;
  recording_.names = {"libcublas.so.13"};
  const Trace trace = trace_of({given});
  ASSERT_EQ(trace.counters.size(), 1u);
  EXPECT_EQ(trace.counters[0].name, "device_bytes_gained_in_window_by libcublas.so.13");
  EXPECT_THAT(trace.counters[0].samples, ElementsAre(Counter::Sample{300_ns, -200}));
}

TEST_F(RecordingTrace, MemoryThatALibraryTookIsACounter) {
  DeviceRecord taken = record(RecordKind::allocation, 1'100, 1'100, {});
  taken.bytes = 500;
  DeviceRecord given = record(RecordKind::release, 1'300, 1'300, {});
  given.bytes = 200;
  recording_.names = {"libnccl.so.2"};
  const Trace trace = trace_of({taken, given});
  ASSERT_EQ(trace.counters.size(), 1u);
  EXPECT_EQ(trace.counters[0].name, "device_bytes_gained_in_window_by libnccl.so.2");
  EXPECT_THAT(trace.counters[0].samples,
              ElementsAre(Counter::Sample{100_ns, 500}, Counter::Sample{300_ns, 300}));
  EXPECT_THAT(trace.recording.memory,
              ElementsAre(MemoryHolder{.owner = "libnccl.so.2, taken less given back in the window",
                                       .place = MemoryHolder::Place::device,
                                       .recorded = 300_B}));
}

TEST_F(RecordingTrace, WhatWasLostIsInTheRecordingsFacts) {
  recording_.dropped = 4;
  recording_.notes = {"CUPTI: 4 records were dropped: the buffers were full"};
  const Trace trace = trace_of({});
  EXPECT_EQ(trace.recording.dropped_records, 4);
  EXPECT_THAT(trace.recording.notes, Contains(recording_.notes[0]));
}

/// Says what it was made to say.
class ScriptedRecorder final : public DeviceRecorder {
 public:
  ScriptedRecorder(std::string why_not, DeviceRecording recording)
      : why_not_(std::move(why_not)), recording_(std::move(recording)) {}
  Probe& probe() override { return probe_; }
  std::string start() override { return why_not_; }
  DeviceRecording stop() override { return recording_; }

 private:
  Probe probe_;
  std::string why_not_;
  DeviceRecording recording_;
};

TEST_F(RecordingTrace, AnInstrumentThatCannotRecordSaysWhyAndWhatThereIsInstead) {
  const auto instrument = make_device_instrument(
      schedule_, std::make_unique<ScriptedRecorder>("another profiler", recording_));
  instrument->start();
  EXPECT_FALSE(instrument->times_replays());
  instrument->stop();
  Trace trace = start_trace(schedule_, TraceKind::profiled);
  instrument->add_to(trace, window_);
  EXPECT_TRUE(trace.spans.empty());
  EXPECT_THAT(trace.recording.notes,
              ElementsAre(testing::AllOf(HasSubstr("another profiler"), HasSubstr("marks"))));
}

TEST_F(RecordingTrace, AnInstrumentAddsWhatItRecorded) {
  recording_.records = {record(RecordKind::kernel, 1'200, 1'250, product)};
  const auto instrument =
      make_device_instrument(schedule_, std::make_unique<ScriptedRecorder>("", recording_));
  instrument->start();
  EXPECT_TRUE(instrument->times_replays());
  instrument->stop();
  Trace trace = start_trace(schedule_, TraceKind::profiled);
  instrument->add_to(trace, window_);
  EXPECT_EQ(trace.spans.size(), 1u);
}

}  // namespace
}  // namespace shardscope
