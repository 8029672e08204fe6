#include "traces/chrome_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/format/atomic_file.h"
#include "traces/analysis.h"
#include "traces/chrome_fields.h"
#include "traces/chrome_header.h"
#include "traces/gzip.h"
#include "traces/kineto_names.h"
#include "traces/launches.h"

namespace shardscope {
namespace {

constexpr std::size_t flush_bytes = 1 << 16;
constexpr int host_pid_base = 1000000;        // clear of every device ordinal
constexpr int device_sort_index = 0x1000000;  // Kineto's
constexpr std::size_t listed_ranks = 30;      // longer groups are cut, as PyTorch does
constexpr Duration mark = {1};

/// Microseconds with three decimals, digit for digit.
std::string microseconds(Duration time) {
  const bool is_negative = time.ns < 0;
  const auto magnitude =
      is_negative ? ~static_cast<std::uint64_t>(time.ns) + 1 : static_cast<std::uint64_t>(time.ns);
  return fmt::format("{}{}.{:03}", is_negative ? "-" : "", magnitude / 1000, magnitude % 1000);
}

/// Writes one trace to one sink, part after part; every event is one line.
class Writer {
 public:
  Writer(const Trace& trace, const TextSink& sink)
      : trace_(trace), sink_(sink), facts_(trace), groups_(trace), launches_(trace) {
    for (const std::string& name : trace.names) quoted_names_.push_back(quoted_json(name));
  }

  void write(std::string_view trace_name) {
    write_chrome_header(trace_, groups_, quoted_names_, [&](std::string_view part) { text(part); });
    text("\"traceEvents\": [\n");
    write_metadata();
    for (std::size_t i = 0; i < trace_.spans.size(); ++i) write_span(i);
    write_derived_steps();
    write_memory();
    write_counters();
    text(fmt::format("\n],\n\"traceName\": {}\n}}\n", quoted_json(trace_name)));
    flush();
  }

 private:
  void text(std::string_view part) {
    buffer_ += part;
    if (buffer_.size() >= flush_bytes) flush();
  }
  void flush() {
    sink_(buffer_);
    buffer_.clear();
  }
  /// One event, given what stands inside its braces.
  void event(std::string_view inside) {
    text(is_first_event_ ? "{" : ",\n{");
    text(inside);
    text("}");
    is_first_event_ = false;
  }

  int device_pid() const { return trace_.local_rank; }
  int host_pid() const { return host_pid_base + trace_.rank; }
  bool is_host_track(std::size_t track) const {
    return trace_.tracks[track].stream == Stream::host;
  }
  std::string place(std::size_t track) const {
    if (is_host_track(track)) return host_place(track + 1);
    return fmt::format("\"pid\": {}, \"tid\": {}", device_pid(), track + 1);
  }
  /// Thread 0 holds what no host track does: launch marks, derived annotations, memory.
  std::string host_place(std::size_t thread) const {
    return fmt::format("\"pid\": {}, \"tid\": {}", host_pid(),
                       host_pid() + static_cast<int>(thread));
  }
  static std::string time_fields(Duration start, Duration duration) {
    return fmt::format("\"ts\": {}, \"dur\": {}", microseconds(start), microseconds(duration));
  }

  void write_metadata() {
    process(device_pid(), fmt::format("rank {} {}", trace_.rank, name_of(trace_.kind)),
            fmt::format("GPU {}", device_pid()), device_sort_index + device_pid());
    process(host_pid(), fmt::format("rank {} host", trace_.rank), "CPU", host_pid());
    thread(host_place(0), "launches", 0);
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      const std::string& name = trace_.tracks[i].name;
      thread(place(i), is_host_track(i) ? name : fmt::format("stream {} {}", i + 1, name),
             static_cast<int>(i) + 1);
    }
  }
  void process(int pid, std::string_view name, std::string_view label, int sort_index) {
    const auto metadata = [&](std::string_view what, const std::string& argument) {
      event(
          fmt::format("\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": 0, \"ts\": 0.000, "
                      "\"args\": {{{}}}",
                      what, pid, argument));
    };
    metadata("process_name", fmt::format("\"name\": {}", quoted_json(name)));
    metadata("process_labels", fmt::format("\"labels\": {}", quoted_json(label)));
    metadata("process_sort_index", fmt::format("\"sort_index\": {}", sort_index));
  }
  void thread(const std::string& where, std::string_view name, int sort_index) {
    event(fmt::format(
        "\"ph\": \"M\", \"name\": \"thread_name\", {}, \"ts\": 0.000, \"args\": {{\"name\": {}}}",
        where, quoted_json(name)));
    event(
        fmt::format("\"ph\": \"M\", \"name\": \"thread_sort_index\", {}, \"ts\": 0.000, \"args\": "
                    "{{\"sort_index\": {}}}",
                    where, sort_index));
  }

  void write_span(std::size_t index) {
    const Span& span = trace_.spans[index];
    if (span.span_class == SpanClass::annotation) {
      write_plain_span(span, is_host_track(span.track) ? "user_annotation" : "gpu_user_annotation",
                       {});
    } else if (!is_on_device(trace_, span)) {
      write_host_span(index);
    } else {
      write_device_span(index);
    }
  }

  void write_plain_span(const Span& span, std::string_view category,
                        std::string_view standard_args) {
    write_named_span(span, category, quoted_names_[span.name], standard_args);
  }
  void write_named_span(const Span& span, std::string_view category, std::string_view quoted_name,
                        std::string_view standard_args) {
    event(
        fmt::format("\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, {}, {}, \"args\": "
                    "{{{}\"shardscope\": {{{}}}}}",
                    category, quoted_name, place(span.track),
                    time_fields(span.start, span.duration), standard_args, own_args(span)));
  }

  void write_host_span(std::size_t index) {
    const Span& span = trace_.spans[index];
    const std::size_t correlation = launches_.correlation_of_host(index);
    if (correlation == 0) return write_plain_span(span, "cpu_op", {});
    const Span& launched = trace_.spans[correlation - 1];
    write_named_span(span, "cuda_runtime", quoted_json(launch_name(launched)),
                     correlation_args(correlation));
    flow('s', correlation, place(span.track), span.start);
  }

  /// As measured, else those of the operation.
  std::optional<std::int64_t> bytes_of(std::size_t index, const OperationFacts* facts) const {
    if (const auto measured = measure_of(trace_, index, "bytes_moved")) return measured;
    if (facts == nullptr) return std::nullopt;
    return facts->bytes.count;
  }

  void write_device_span(std::size_t index) {
    const Span& span = trace_.spans[index];
    const std::size_t correlation = index + 1;
    const bool is_copy = span.span_class == SpanClass::copy;
    std::string args = fmt::format("{}\"device\": {}, \"context\": 1, \"stream\": {}, ",
                                   correlation_args(correlation), device_pid(), span.track + 1);
    const OperationFacts* facts = facts_.find(span.operation);
    std::string name = quoted_names_[span.name];
    // A recorded span has the name that tools know it by; operations' names tell them nothing.
    const std::string_view own_name = trace_.name(span);
    if (is_copy) {
      if (!own_name.starts_with("Mem"))
        name = quoted_json(memcpy_name(facts != nullptr ? facts->way : CopyWay::within));
      if (const auto bytes = bytes_of(index, facts)) args += fmt::format("\"bytes\": {}, ", *bytes);
    } else if (span.span_class == SpanClass::communication) {
      if (!own_name.starts_with("nccl"))
        name = quoted_json(nccl_kernel_name(facts != nullptr ? facts->kind : OperationKind::compute,
                                            facts != nullptr ? facts->dtype : Dtype::float32));
      if (facts != nullptr && is_collective(facts->kind)) args += collective_args(*facts);
    }
    write_named_span(span, is_copy ? "gpu_memcpy" : "kernel", name, args);
    if (!launches_.has_launch(index)) write_launch_mark(span, correlation);
    flow('f', correlation, place(span.track), span.start);
  }

  /// Stands for a launch of which the trace has no host span: tools need one to pair with.
  void write_launch_mark(const Span& span, std::size_t correlation) {
    event(
        fmt::format("\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": {}, {}, {}, \"args\": "
                    "{{{}\"shardscope\": "
                    "{{\"derived\": true}}}}",
                    quoted_json(launch_name(span)), host_place(0), time_fields(span.start, mark),
                    correlation_args(correlation)));
    flow('s', correlation, host_place(0), span.start);
  }

  static std::string_view launch_name(const Span& launched) {
    if (launched.span_class == SpanClass::copy) return "cudaMemcpyAsync";
    if (launched.span_class == SpanClass::communication) return "cudaLaunchKernelExC";
    return "cudaLaunchKernel";
  }
  static std::string correlation_args(std::size_t correlation) {
    return fmt::format("\"External id\": {0}, \"correlation\": {0}, ", correlation);
  }
  void flow(char phase, std::size_t correlation, const std::string& where, Duration time) {
    event(fmt::format(
        "\"ph\": \"{}\", \"id\": {}, {}, \"ts\": {}, \"cat\": \"ac2g\", \"name\": \"ac2g\"{}",
        phase, correlation, where, microseconds(time), phase == 'f' ? ", \"bp\": \"e\"" : ""));
  }

  std::string collective_args(const OperationFacts& facts) const {
    const std::size_t shown = std::min(facts.ranks.size(), listed_ranks);
    const std::string ranks =
        fmt::format("[{}{}]", fmt::join(facts.ranks.part(0, shown).list(), ", "),
                    shown < facts.ranks.size() ? ", ..." : "");
    return fmt::format(
        "\"Collective name\": \"{}\", \"In msg nelems\": {}, \"Out msg nelems\": {}, \"Group "
        "size\": {}, \"dtype\": \"{}\", "
        "\"In split size\": \"[]\", \"Out split size\": \"[]\", \"Process Group Name\": \"{}\", "
        "\"Process Group Description\": {}, \"Process Group Ranks\": \"{}\", ",
        collective_name(facts.kind), facts.elements_in, facts.elements_out, facts.ranks.size(),
        c10_name(facts.dtype), groups_.index_of(facts), quoted_json(facts.group), ranks);
  }

  std::string own_args(const Span& span) {
    std::string args =
        fmt::format("\"class\": \"{}\", \"track\": {}, \"name\": {}, \"step\": {}",
                    name_of(span.span_class), span.track, quoted_names_[span.name], span.step) +
        measures_args(static_cast<std::size_t>(&span - trace_.spans.data()));
    if (!span.operation) return args;
    args += fmt::format(", \"operation\": {}", span.operation.value);
    const OperationFacts* facts = facts_.find(span.operation);
    if (facts == nullptr) return args;
    return args +
           fmt::format(
               ", \"kind\": \"{}\", \"phase\": \"{}\", \"micro_batch\": {}, \"unit\": {}, "
               "\"bytes\": {}, "
               "\"flops\": {}",
               name_of(facts->kind), name_of(facts->phase), facts->micro_batch,
               quoted_json(facts->unit), facts->bytes.count, facts->flops.count) +
           choice_fields(facts->choice);
  }

  std::string measures_args(std::size_t span) const {
    std::vector<std::string> values;
    for (const SpanMeasure& row : measures_of(trace_, span))
      values.push_back(fmt::format("{}: {}", quoted_json(trace_.measures[row.measure]), row.value));
    if (values.empty()) return {};
    return fmt::format(", \"measures\": {{{}}}", fmt::join(values, ", "));
  }

  bool has_step_annotation(bool on_host) const {
    return std::any_of(trace_.spans.begin(), trace_.spans.end(), [&](const Span& span) {
      return span.span_class == SpanClass::annotation && is_host_track(span.track) == on_host &&
             trace_.name(span).starts_with("ProfilerStep#");
    });
  }

  /// Tools cut a trace into iterations by "ProfilerStep#N"; where the trace has no such spans they
  /// follow from its steps.
  void write_derived_steps() {
    const bool on_host = has_step_annotation(true);
    const bool on_device = has_step_annotation(false);
    const auto first_device =
        std::find_if(trace_.tracks.begin(), trace_.tracks.end(),
                     [](const Track& track) { return track.stream != Stream::host; });
    for (const StepWindow& step : step_windows(trace_)) {
      if (step.step <= 0) continue;
      if (!on_host) derived_step(step, "user_annotation", host_place(0));
      if (on_device || first_device == trace_.tracks.end()) continue;
      derived_step(step, "gpu_user_annotation",
                   place(static_cast<std::size_t>(first_device - trace_.tracks.begin())));
    }
  }
  void derived_step(const StepWindow& step, std::string_view category, const std::string& where) {
    event(fmt::format(
        "\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"ProfilerStep#{}\", {}, {}, \"args\": "
        "{{\"shardscope\": "
        "{{\"derived\": true}}}}",
        category, step.step, where, time_fields(step.window.begin, step.window.length())));
  }

  void write_memory() {
    Bytes before;
    for (std::size_t i = 0; i < trace_.memory.size(); ++i) {
      const MemorySample& sample = trace_.memory[i];
      write_memory_instant(sample, i, sample.live.total() - before);
      write_memory_counter(sample);
      before = sample.live.total();
    }
  }
  void write_memory_instant(const MemorySample& sample, std::size_t index, Bytes change) {
    std::vector<std::int64_t> live;
    for (const Bytes bytes : sample.live.by) live.push_back(bytes.count);
    const std::string operation = sample.operation
                                      ? fmt::format("\"operation\": {}, ", sample.operation.value)
                                      : std::string();
    event(fmt::format(
        "\"ph\": \"i\", \"s\": \"t\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", {}, "
        "\"ts\": {}, "
        "\"args\": {{\"Ev Idx\": {}, \"Addr\": 0, \"Bytes\": {}, \"Total Allocated\": {}, \"Total "
        "Reserved\": {}, "
        "\"Device Type\": 1, \"Device Id\": {}, \"shardscope\": {{{}{}\"live_bytes\": [{}]}}}}",
        host_place(0), microseconds(sample.time), index, change.count, sample.live.total().count,
        std::max(trace_.arena, sample.reserved).count, device_pid(), operation, held_by(sample),
        fmt::join(live, ", ")));
  }
  /// Where an allocator holds more than what is in use.
  static std::string held_by(const MemorySample& sample) {
    if (sample.reserved == Bytes{}) return {};
    return fmt::format("\"active_bytes\": {}, \"reserved_bytes\": {}, ", sample.active.count,
                       sample.reserved.count);
  }
  void write_memory_counter(const MemorySample& sample) {
    std::vector<std::string> series;
    for (const MemoryCategory category : memory_categories) {
      series.push_back(fmt::format("\"{}\": {}", name_of(category), sample.live[category].count));
    }
    event(
        fmt::format("\"ph\": \"C\", \"cat\": \"memory\", \"name\": \"memory\", \"pid\": {}, "
                    "\"tid\": 0, \"ts\": {}, "
                    "\"args\": {{{}}}",
                    device_pid(), microseconds(sample.time), fmt::join(series, ", ")));
    if (sample.reserved == Bytes{}) return;
    event(fmt::format(
        "\"ph\": \"C\", \"cat\": \"memory\", \"name\": \"memory held\", \"pid\": {}, "
        "\"tid\": 0, \"ts\": {}, \"args\": {{\"active\": {}, \"reserved\": {}}}",
        device_pid(), microseconds(sample.time), sample.active.count, sample.reserved.count));
  }

  /// Told apart from the memory's by the key "shardscope".
  void write_counters() {
    for (std::size_t i = 0; i < trace_.counters.size(); ++i) {
      const std::string name = quoted_json(trace_.counters[i].name);
      for (const Counter::Sample& sample : trace_.counters[i].samples) {
        event(
            fmt::format("\"ph\": \"C\", \"cat\": \"counter\", \"name\": {}, \"pid\": {}, \"tid\": "
                        "0, \"ts\": {}, "
                        "\"args\": {{{}: {}}}, \"shardscope\": {{\"counter\": {}}}",
                        name, host_pid(), microseconds(sample.time), name, sample.value, i));
      }
    }
  }

  const Trace& trace_;
  const TextSink& sink_;
  FactsTable facts_;
  GroupTable groups_;
  LaunchTable launches_;
  std::vector<std::string> quoted_names_;
  std::string buffer_;
  bool is_first_event_ = true;
};

void write_text(const Trace& trace, std::string_view trace_name, const TextSink& sink) {
  Writer(trace, sink).write(trace_name);
}

}  // namespace

std::string chrome_trace_json(const Trace& trace) {
  std::string result;
  write_text(trace, "trace.json", [&](std::string_view part) { result += part; });
  return result;
}

void write_chrome_trace(const Trace& trace, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (path.extension() != ".gz") {
    std::string plain;
    write_text(trace, name, [&](std::string_view part) { plain += part; });
    return write_atomically(path, plain);
  }
  GzipWriter gzip;
  write_text(trace, name, [&](std::string_view part) { gzip.append(part); });
  write_atomically(path, gzip.finish());
}

}  // namespace shardscope
