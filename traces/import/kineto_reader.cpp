#include "traces/import/kineto_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/format/json_reader.h"
#include "traces/import/classification.h"
#include "traces/import/decimal_time.h"
#include "traces/import/event_scanner.h"
#include "traces/import/kineto_arguments.h"
#include "traces/import/kineto_tracks.h"
#include "traces/import/name_table.h"

namespace shardscope {
namespace {

constexpr std::size_t max_events = UINT32_MAX - 1;
constexpr std::size_t max_categories = UINT16_MAX;
constexpr std::size_t max_header_bytes = std::size_t{64} << 20;
constexpr std::int64_t max_busy_ns = std::int64_t{1} << 50;  // 13 days
constexpr std::uint32_t named_link = std::uint32_t{1} << 31;
constexpr std::int64_t max_base_ns = std::int64_t{1} << 62;

/// What is done with events of a category.
struct CategoryTraits {
  bool is_activity = false;    ///< of a device: kernel, memcpy, memset
  bool is_launch = false;      ///< a call of CUDA's or HIP's runtime or driver
  bool is_annotation = false;  ///< of a device
};

CategoryTraits traits_of(std::string_view category) {
  std::string lower(category);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  const bool is_activity = lower == "kernel" || lower == "gpu_memcpy" || lower == "memcpy" ||
                           lower == "gpu_memset" || lower == "memset";
  return {.is_activity = is_activity,
          .is_launch = lower.ends_with("runtime") || lower.ends_with("driver"),
          .is_annotation = lower == "gpu_user_annotation"};
}

/// What is done with events of a name.
enum class NameTrait : std::uint8_t { plain, memory, parameters, communication };

NameTrait trait_of(std::string_view name) {
  if (name == "[memory]") return NameTrait::memory;
  if (name == "record_param_comms") return NameTrait::parameters;
  const bool is_call = name.starts_with("c10d::") || name.starts_with("gloo:");
  return is_call ? NameTrait::communication : NameTrait::plain;
}

std::string_view inside_of(std::string_view json) {
  return json.starts_with('"') ? json.substr(1, json.size() - 2) : json;
}

std::int64_t integer_or(std::string_view text, std::int64_t otherwise) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

/// Reads the members of "distributedInfo" that say which rank this is.
void read_rank(std::string_view text, ImportedTrace& trace) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  for_each_member(text, [&](std::string_view key, std::string_view value) {
    const std::int64_t number = integer_or(value, -1);
    if (number < 0 || number > most) return;
    if (key == "rank") trace.rank = static_cast<int>(number);
    if (key == "world_size") trace.world = static_cast<int>(number);
  });
}

class KinetoReader : public EventSink {
 public:
  KinetoReader(ImportedTrace& trace, const TextInput& input, const ImportOptions& options)
      : trace_(trace), input_(input), options_(options) {}

  void header(std::string_view key, std::string_view value) override {
    if (key == "baseTimeNanoseconds") {
      const std::int64_t base = integer_or(value, 0);
      trace_.base_ns = base >= 0 && base <= max_base_ns ? base : 0;
    }
    if (key == "distributedInfo") read_rank(value, trace_);
    header_bytes_ += key.size() + value.size() + sizeof(trace_.header[0]);
    if (header_bytes_ > max_header_bytes)
      return remark("more than 64 MiB of keys beside the events");
    trace_.header.emplace_back(unescaped(key), value);
  }

  void event(const RawEvent& event) override {
    ++report().events_read;
    const std::string_view problem = keep(event);
    if (!problem.empty()) return skip(problem);
    if (event.notes.control_character) odd("hold raw control characters");
    if (event.notes.bad_utf8) odd("hold bytes that are not UTF-8");
    if (event.notes.not_a_number) odd("hold NaN or infinities");
  }

  void lost(std::string_view reason) override {
    ++report().events_read;
    skip(reason);
  }

  void remark(std::string_view text) override {
    if (report().guessed.size() < 100) report().guessed.emplace_back(text);
  }

  bool progress(std::int64_t text_bytes) override {
    report().text_bytes = text_bytes;  // so far
    return options_.progress && options_.progress(trace_, input_.consumed_bytes());
  }

  void end(const ScannedText& text) override { report().text_bytes = text.bytes; }

  void finish() {
    end_open_spans();
    trace_.names = std::move(names_).take();
    trace_.tracks = std::move(tracks_).finish();
    const bool is_kineto = !trace_.header_text("schemaVersion").empty() ||
                           !trace_.header_text("deviceProperties").empty() ||
                           !trace_.header_text("traceName").empty();
    report().format = is_kineto ? "kineto" : "chrome";
    if (!trace_.rank) remark("the file does not say which rank it is");
  }

 private:
  ImportReport& report() { return trace_.report; }
  void skip(std::string_view reason) { ++report().skipped[std::string(reason)]; }
  void odd(std::string_view what) { ++report().odd[std::string(what)]; }

  /// Empty when the event was kept, else why not.
  std::string_view keep(const RawEvent& event) {
    const std::string_view phase = inside_of(event.phase);
    if (phase.size() != 1 || !event.phase.starts_with('"')) return "no phase";
    const auto start = microseconds_to_ns(inside_of(event.start));
    const bool has_time = start && start->ns >= -max_busy_ns;
    if (!has_time && phase != "M") return "no usable time";
    Times times{.start_ns = has_time ? start->ns : 0};
    if (start && start->is_rounded) odd("have times finer than nanoseconds, rounded");
    if (phase == "E") return end_span(event, times.start_ns);
    if (phase == "X") read_duration(event, times);
    if (trace_.events.size() >= max_events) return "more than 4,294,967,294 events";
    add(event, phase.front(), times);
    ++report().events_kept;
    return {};
  }

  struct Times {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
  };

  void read_duration(const RawEvent& event, Times& times) {
    const auto duration = microseconds_to_ns(inside_of(event.duration));
    if (!duration) return odd("have no duration, taken as 0");
    const bool is_believed = duration->ns >= 0 && duration->ns <= max_busy_ns;
    times.duration_ns = is_believed ? duration->ns : 0;
    if (duration->ns < 0) odd("have a negative duration, taken as 0");
    if (duration->ns > max_busy_ns) odd("last over 13 days, taken as 0");
    if (duration->is_rounded) odd("have times finer than nanoseconds, rounded");
  }

  std::uint32_t intern(std::string_view inside, const ScanNotes& notes) {
    const bool is_plain = inside.find('\\') == inside.npos && !notes.bad_utf8;
    return is_plain ? names_.intern(inside) : names_.intern(unescaped(inside));
  }

  NameTrait name_trait(std::uint32_t name) {
    while (name_traits_.size() <= name)
      name_traits_.push_back(trait_of(names_.names()[name_traits_.size()]));
    return name_traits_[name];
  }

  std::uint16_t category_of(std::string_view json) {
    if (json == last_category_text_ && !trace_.categories.empty()) return last_category_;
    std::string text = unescaped(inside_of(json));
    const auto at = std::find(trace_.categories.begin(), trace_.categories.end(), text);
    if (at == trace_.categories.end()) {
      if (trace_.categories.size() >= max_named_categories) {
        odd("are of more than 250 categories, the last ones as one");
        text = "(other)";
      }
      if (trace_.categories.size() <= max_named_categories) {
        category_traits_.push_back(traits_of(text));
        trace_.categories.push_back(text);
      }
    }
    const auto found = std::find(trace_.categories.begin(), trace_.categories.end(), text);
    last_category_ = static_cast<std::uint16_t>(found - trace_.categories.begin());
    last_category_text_ = json;
    return last_category_;
  }

  void add(const RawEvent& event, char phase, const Times& times) {
    EventColumns& events = trace_.events;
    const auto id = static_cast<std::uint32_t>(events.size());
    const std::uint32_t name = intern(inside_of(event.name), event.notes);
    const std::uint16_t category = category_of(event.category);
    if (event.name.empty()) odd("have no name");
    events.start_ns.push_back(times.start_ns);
    events.duration_ns.push_back(times.duration_ns);
    events.text_offset.push_back(event.offset);
    events.text_length.push_back(event.length);
    events.name.push_back(name);
    events.category.push_back(category);
    events.lane.push_back(0);
    events.phase.push_back(phase);
    events.span_class.push_back(SpanClass::host);
    TrackKey key{.process = event.process, .thread = event.thread};
    const std::uint32_t link = read_arguments(event, id, key);
    const std::uint32_t track = tracks_.of(key);
    events.track.push_back(track);
    events.link.push_back(link);
    if (phase == 'M') read_metadata(event, names_.names()[name]);
    if (phase == 'B') open_[track].push_back(id);
    last_end_ns_ = std::max(last_end_ns_, times.start_ns + times.duration_ns);
  }

  /// Takes what is wanted at once, and says where the event lies; returns its link.
  std::uint32_t read_arguments(const RawEvent& event, std::uint32_t id, TrackKey& key) {
    const std::uint32_t name = trace_.events.name[id];
    const char phase = trace_.events.phase[id];
    const CategoryTraits traits = category_traits_[trace_.events.category[id]];
    if (traits.is_annotation) key.kind = TrackKind::annotations;
    if (phase == 's' || phase == 't' || phase == 'f') return flow_link(event);
    if (traits.is_activity && phase == 'X') return read_activity(event, id, key);
    switch (name_trait(name)) {
      case NameTrait::memory:
        read_memory(event, id);
        break;
      case NameTrait::parameters:
        add_communication(nccl_arguments(event.arguments, names_), id);
        break;
      case NameTrait::communication:
        add_communication(operator_arguments(names_.names()[name], event.arguments, names_), id);
        break;
      case NameTrait::plain:
        break;
    }
    if (!traits.is_launch) return 0;
    return number_link(activity_arguments(event.arguments).correlation.value_or(0));
  }

  std::uint32_t read_activity(const RawEvent& event, std::uint32_t id, TrackKey& key) {
    const ActivityArguments arguments = activity_arguments(event.arguments);
    if (!arguments.device || !arguments.stream)
      odd("are activities of a device that only pid and tid tell");
    key.kind = TrackKind::stream;
    if (arguments.has_unbelievable) odd("name bytes or a device that no machine has, left out");
    key.device = arguments.device.value_or(process_as_device(event));
    key.stream = arguments.stream.value_or(integer_or(event.thread, -1));
    if (arguments.bytes) trace_.copied_bytes.push_back({id, {*arguments.bytes}});
    if (event.arguments.find("\"Collective name\"") != event.arguments.npos)
      add_communication(nccl_arguments(event.arguments, names_), id);
    return number_link(arguments.correlation.value_or(0));
  }

  /// The process stands for the device where an activity does not name one.
  static std::int64_t process_as_device(const RawEvent& event) {
    const std::int64_t process = integer_or(event.process, -1);
    return process >= 0 && process <= std::numeric_limits<std::int32_t>::max() ? process : -1;
  }

  void add_communication(CommunicationRow row, std::uint32_t id) {
    row.event = id;
    trace_.communication.push_back(row);
  }

  void read_memory(const RawEvent& event, std::uint32_t id) {
    auto memory = memory_arguments(event.arguments);
    if (!memory) return odd("are [memory] without its figures");
    if (!memory->is_believable)
      return odd("are [memory] with figures that no machine has, left out");
    auto& devices = trace_.memory_devices;
    const auto at = std::find(devices.begin(), devices.end(), memory->device);
    if (at == devices.end() && devices.size() >= max_memory_devices)
      return odd("are [memory] of more than 1,000 devices");
    memory->change.device = static_cast<std::uint32_t>(at - devices.begin());
    if (at == devices.end()) devices.push_back(memory->device);
    memory->change.event = id;
    trace_.memory.push_back(memory->change);
  }

  void read_metadata(const RawEvent& event, std::string_view name) {
    if (name != "thread_name") return;
    for_each_member(event.arguments, [&](std::string_view key, std::string_view value) {
      if (key == "name") tracks_.name(event.process, event.thread, unescaped(inside_of(value)));
    });
  }

  static std::uint32_t number_link(std::int64_t number) {
    return number > 0 && number < named_link ? static_cast<std::uint32_t>(number) : 0;
  }

  /// A flow's id: its number, or the name that is no small number.
  std::uint32_t flow_link(const RawEvent& event) {
    const std::int64_t number = integer_or(event.id, -1);
    if (number >= 0 && number + 1 < named_link) return static_cast<std::uint32_t>(number + 1);
    return names_.intern(event.id) | named_link;
  }

  std::string_view end_span(const RawEvent& event, std::int64_t end_ns) {
    const auto open = open_.find(tracks_.of({.process = event.process, .thread = event.thread}));
    if (open == open_.end() || open->second.empty()) return "an end without a beginning";
    const std::uint32_t begin = open->second.back();
    open->second.pop_back();
    close(begin, end_ns);
    odd("are ends, joined with their beginnings");
    return {};
  }

  void close(std::uint32_t begin, std::int64_t end_ns) {
    const std::int64_t lasted = end_ns - trace_.events.start_ns[begin];
    trace_.events.duration_ns[begin] = std::clamp<std::int64_t>(lasted, 0, max_busy_ns);
    last_end_ns_ = std::max(last_end_ns_, end_ns);
  }

  void end_open_spans() {
    for (const auto& [track, open] : open_) {
      for (const std::uint32_t begin : open) {
        close(begin, last_end_ns_);
        odd("have no end, taken to last to the end of the trace");
      }
    }
  }

  static constexpr std::size_t max_named_categories = 250;
  static constexpr std::size_t max_memory_devices = 1000;

  ImportedTrace& trace_;
  const TextInput& input_;
  const ImportOptions& options_;
  NameTable names_;
  KinetoTracks tracks_;
  std::vector<NameTrait> name_traits_;
  std::vector<CategoryTraits> category_traits_;
  std::string last_category_text_;
  std::uint16_t last_category_ = 0;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> open_;  ///< 'B' events, by track
  std::int64_t last_end_ns_ = std::numeric_limits<std::int64_t>::min();
  std::size_t header_bytes_ = 0;
};

}  // namespace

ImportedTrace read_kineto(TextInput& input, TextStore store, std::string file,
                          const ImportOptions& options) {
  ImportedTrace trace;
  trace.file = std::move(file);
  KinetoReader reader(trace, input, options);
  if (!scan_events(input, store, options.max_text_bytes, reader)) {
    throw Error({.where = trace.file, .what = "stopped", .code = ExitCode::interrupted});
  }
  reader.finish();
  trace.text = std::make_shared<const TextStore>(std::move(store));
  lay_out(trace);
  classify(trace, class_rules(Definitions::own));
  return trace;
}

}  // namespace shardscope
