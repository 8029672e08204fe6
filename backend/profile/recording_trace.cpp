#include "backend/profile/recording_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "traces/operation_spans.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

std::string_view host_track_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::call:
      return "calls";
    case RecordKind::synchronization:
      return "waits";
    case RecordKind::overhead:
      return "profiler and loading";
    default:
      return "";  // a moment, or no matter of the host
  }
}

/// What a record counts as. All that runs for a collective is communication, its copies too.
SpanClass class_of(const DeviceRecord& record, const Operation* operation) {
  if (operation != nullptr && is_collective(operation->kind)) return SpanClass::communication;
  if (record.kind != RecordKind::kernel) return SpanClass::copy;
  return operation != nullptr ? span_class_of(operation->kind) : SpanClass::compute;
}

class RecordingSpans {
 public:
  RecordingSpans(Trace& trace, const Schedule& schedule, const DeviceRecording& recording,
                 const MeasuredWindow& window)
      : trace_(trace),
        schedule_(schedule),
        recording_(recording),
        window_(window),
        timed_before_(trace),
        first_name_(static_cast<std::uint32_t>(trace.names.size())) {
    trace.names.insert(trace.names.end(), recording.names.begin(), recording.names.end());
    for (const DeviceRecord& record : recording.records)
      if (is_device_work(record.kind) && record.graph_node == 0) causes_.insert(record.correlation);
  }

  void add(const DeviceRecord& record) {
    if (is_device_work(record.kind)) {
      if (!is_untimed(record)) add_device_work(record);
    } else if (const std::string_view track = host_track_of(record.kind); !track.empty()) {
      push(launches_alone(record) ? record : without_operation(record),
           track_named(std::string(track), Stream::host), SpanClass::host);
    }
  }

 private:
  /// The host's k-th span of an operation is taken to launch its k-th on the device (LaunchTable).
  bool launches_alone(const DeviceRecord& record) const {
    return record.kind == RecordKind::call && causes_.contains(record.correlation);
  }
  static DeviceRecord without_operation(DeviceRecord record) {
    record.operation = {};
    return record;
  }

  bool in_window(const DeviceRecord& record) const {
    return record.step >= window_.first_step && record.step <= window_.last_step;
  }

  void add_device_work(const DeviceRecord& record) {
    const bool ours = record.operation && record.operation.value < schedule_.operations.size();
    if (!ours) {
      const std::string track = fmt::format("stream {}, not ours", record.stream);
      return push(record, track_named(track, Stream::compute), class_of(record, nullptr));
    }
    if (!in_window(record)) return;
    const Operation& operation = schedule_.at(record.operation);
    if (timed_before_.find(record.step, record.operation)) {
      const std::string track = fmt::format("kernels of {}", name_of(operation.stream));
      return push(record, track_named(track, operation.stream), SpanClass::annotation);
    }
    push(record, track_of(trace_, operation.stream), class_of(record, &operation));
  }

  void push(const DeviceRecord& record, std::uint16_t track, SpanClass span_class) {
    trace_.spans.push_back({.start = {record.start_ns - window_.base_monotonic_ns},
                            .duration = {record.duration_ns()},
                            .name = first_name_ + record.name,
                            .track = track,
                            .span_class = span_class,
                            .operation = record.operation,
                            .step = record.step});
    if (record.kind != RecordKind::copy && record.kind != RecordKind::set) return;
    trace_.span_measures.push_back({.span = static_cast<std::uint32_t>(trace_.spans.size() - 1),
                                    .measure = intern_measure(trace_, "bytes_moved"),
                                    .value = record.bytes});
  }

  std::uint16_t track_named(const std::string& name, Stream stream) {
    const auto [found, is_new] =
        tracks_.try_emplace(name, static_cast<std::uint16_t>(trace_.tracks.size()));
    if (is_new) trace_.tracks.push_back({.name = name, .stream = stream});
    return found->second;
  }

  Trace& trace_;
  const Schedule& schedule_;
  const DeviceRecording& recording_;
  const MeasuredWindow& window_;
  OperationSpans timed_before_;
  std::uint32_t first_name_;
  std::set<std::uint32_t> causes_;               ///< calls that launched one record
  std::map<std::string, std::uint16_t> tracks_;  ///< those that were added
};

/// Running sums since the window began: a counter for each library, and its end beside what others
/// say of memory. Less than 0 where older memory is given back.
void add_memory(Trace& trace, const DeviceRecording& recording, const MeasuredWindow& window) {
  std::map<std::string_view, Counter> counters;
  for (const DeviceRecord& record : recording.records) {
    const bool allocates = record.kind == RecordKind::allocation;
    if ((!allocates && record.kind != RecordKind::release) || record.on_host) continue;
    Counter& counter = counters[recording.name(record)];
    const std::int64_t before = counter.samples.empty() ? 0 : counter.samples.back().value;
    counter.samples.push_back({.time = {record.start_ns - window.base_monotonic_ns},
                               .value = before + (allocates ? record.bytes : -record.bytes)});
  }
  for (auto& [library, counter] : counters) {
    trace.recording.memory.push_back(
        {.owner = fmt::format("{}, taken less given back in the window", library),
         .place = MemoryHolder::Place::device,
         .recorded = Bytes{counter.samples.back().value}});
    counter.name = fmt::format("device_bytes_gained_in_window_by {}", library);
    trace.counters.push_back(std::move(counter));
  }
}

struct Sum {
  std::int64_t count = 0;
  Duration time;
  void add(std::int64_t more, Duration longer) {
    count += more;
    time = time + longer;
  }
};

void note(std::vector<std::string>& notes, const Sum& sum, std::string_view what) {
  if (sum.count > 0)
    notes.push_back(fmt::format("{} {} ({})", sum.count, what, rounded_text(sum.time)));
}

void add_notes(RecordingFacts& facts, const DeviceRecording& recording) {
  Sum not_ours, overlapping, overhead;
  for (const DeviceRecord& record : recording.records) {
    const Duration time{record.duration_ns()};
    if (is_device_work(record.kind) && !record.operation) not_ours.add(1, time);
    if (record.kind == RecordKind::overhead) overhead.add(1, time);
  }
  for (const StreamBusy& stream : busy_by_stream(recording))
    overlapping.add(stream.overlaps, stream.overlapped);
  facts.dropped_records += recording.dropped;
  facts.notes.insert(facts.notes.end(), recording.notes.begin(), recording.notes.end());
  facts.notes.push_back(fmt::format("device records are within {} of the host's clock",
                                    rounded_text(recording.clock_residual)));
  note(facts.notes, not_ours, "records of the device belong to no operation");
  note(facts.notes, overlapping, "records begin before their stream has ended an earlier one");
  note(facts.notes, overhead, "pauses of the host for profiling and loading code");
}

}  // namespace

void add_recording(Trace& trace, const Schedule& schedule, const DeviceRecording& recording,
                   const MeasuredWindow& window) {
  RecordingSpans spans(trace, schedule, recording, window);
  for (const DeviceRecord& record : recording.records) spans.add(record);
  add_memory(trace, recording, window);
  add_notes(trace.recording, recording);
}

}  // namespace shardscope
