#include "traces/chrome_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"
#include "traces/gzip.h"

namespace shardscope {
namespace {

constexpr std::int64_t max_file_bytes = std::int64_t{1} << 30;
// Bounds on what an event may say, so that nothing overflows however many of them are added up: a
// text within the JSON reader's limits holds fewer than 2^20 events.
constexpr std::int64_t max_time_ns = std::int64_t{1}
                                     << 50;  // 13 days: a double of us is exact to the ns
constexpr std::int64_t max_base_ns = std::int64_t{3} << 60;  // since 1970: the year 2079
constexpr std::int64_t max_busy_ns = std::int64_t{1} << 43;  // 2.4 hours in one operation
constexpr std::int64_t max_payload = std::int64_t{1} << 42;  // 4 TiB in one operation
constexpr std::int64_t max_count = std::int64_t{1} << 58;
constexpr std::size_t max_tracks = std::size_t{1} << 16;  // Span::track
constexpr std::size_t max_measures = 256;
constexpr std::int64_t max_int = std::numeric_limits<std::int32_t>::max();

/// The value in [0, `count`) whose name_of is the text.
template <class Enum>
std::optional<Enum> enum_named(std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template <class Enum>
Enum required_enum(const JsonValue& value, int count) {
  const std::string text = value.string();
  if (const auto found = enum_named<Enum>(text, count)) return *found;
  throw value.error(fmt::format("\"{}\" is not known here", text));
}

constexpr int operation_kinds = static_cast<int>(OperationKind::optimizer) + 1;
constexpr int copy_ways = static_cast<int>(CopyWay::to_device) + 1;
constexpr int phases = static_cast<int>(Phase::other) + 1;
constexpr int trace_kinds = static_cast<int>(TraceKind::imported) + 1;
constexpr int places = static_cast<int>(MemoryHolder::Place::device) + 1;
constexpr int span_classes = static_cast<int>(SpanClass::annotation) + 1;

// Fields of events, where a wrong one is counted and not an error.

std::optional<std::int64_t> integer_in(const JsonValue& object, std::string_view key,
                                       std::int64_t min, std::int64_t max) {
  const auto value = object.find(key);
  if (!value || !value->is_integer()) return std::nullopt;
  const std::int64_t integer = value->integer();
  if (integer < min || integer > max) return std::nullopt;
  return integer;
}

std::optional<Duration> time_in(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  if (!value || !value->is_number()) return std::nullopt;
  const double ns = value->number() * 1000;
  if (!(std::abs(ns) <= static_cast<double>(max_time_ns))) return std::nullopt;
  return Duration{std::llround(ns)};
}

std::optional<std::string> text_in(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  if (!value || !value->is_string()) return std::nullopt;
  return value->string();
}

std::optional<JsonValue> object_in(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->is_object() ? value : std::nullopt;
}

/// Absent is none (and fine); out of range is not.
bool read_operation(const JsonValue& own, OperationId& operation) {
  if (!own.has("operation")) return true;
  const auto id = integer_in(own, "operation", 0, OperationId::none_value - 1);
  if (id) operation = OperationId::of(static_cast<std::size_t>(*id));
  return id.has_value();
}

/// The same of what an allocator holds.
bool read_held(const JsonValue& own, std::string_view key, Bytes& held) {
  if (!own.has(key)) return true;
  const auto count = integer_in(own, key, 0, max_count);
  if (count) held = {*count};
  return count.has_value();
}

bool read_span_class(const JsonValue& own, SpanClass& span_class) {
  const auto text = text_in(own, "class");
  const auto found = text ? enum_named<SpanClass>(*text, span_classes) : std::nullopt;
  if (found) span_class = *found;
  return found.has_value();
}

class Reader {
 public:
  explicit Reader(const JsonValue& document) : document_(document) {}

  OwnTrace read() {
    const auto own = document_.is_object() ? object_in(document_, "shardscope") : std::nullopt;
    if (!own) {
      throw document_.error("not a trace that shardscope wrote (no \"shardscope\" object)",
                            "give a trace.<rank>.json.gz of a run folder");
    }
    read_header(*own);
    trace().base_ns = document_.at("baseTimeNanoseconds").integer(-max_base_ns, max_base_ns);
    const JsonValue events = document_.at("traceEvents");
    const std::size_t count = events.size();
    for (std::size_t i = 0; i < count; ++i) read_event(events[i]);
    std::stable_sort(trace().memory.begin(), trace().memory.end(),
                     [](const MemorySample& a, const MemorySample& b) { return a.time < b.time; });
    for (Counter& counter : trace().counters)
      std::ranges::stable_sort(counter.samples, {}, &Counter::Sample::time);
    sort_measures(trace());
    return std::move(result_);
  }

 private:
  Trace& trace() { return result_.trace; }

  void read_header(const JsonValue& own) {
    own.at("version").integer(1, 1);
    trace().kind = required_enum<TraceKind>(own.at("kind"), trace_kinds);
    trace().rank = static_cast<int>(own.at("rank").integer(0, max_int));
    trace().world = static_cast<int>(own.at("world").integer(1, max_int));
    trace().local_rank = static_cast<int>(own.at("local_rank").integer(0, max_int));
    trace().arena = {own.at("arena_bytes").integer(0, max_count)};
    trace().device = own.at("device").string();
    const JsonValue tracks = own.at("tracks");
    if (tracks.size() > max_tracks) throw tracks.error("more than 65536 tracks");
    for (const JsonValue& track : tracks.elements()) {
      trace().tracks.push_back({.name = track.at("name").string(),
                                .stream = required_enum<Stream>(track.at("stream"), stream_count)});
    }
    for (const JsonValue& name : own.at("names").elements()) intern(name.string());
    for (const JsonValue& group : own.at("groups").elements()) read_group(group);
    for (const JsonValue& operation : own.at("operations").elements())
      read_operation_facts(operation);
    // Traces of earlier versions have none of these.
    if (const auto counters = own.find("counters"))
      for (const JsonValue& name : counters->elements())
        trace().counters.push_back({.name = name.string(), .samples = {}});
    if (const auto measures = own.find("measures")) read_measures(*measures);
    if (const auto recording = own.find("recording")) read_recording(*recording);
  }

  void read_measures(const JsonValue& measures) {
    if (measures.size() > max_measures) throw measures.error("more than 256 measures of spans");
    for (const JsonValue& name : measures.elements()) trace().measures.push_back(name.string());
  }

  void read_recording(const JsonValue& value) {
    RecordingFacts& recording = trace().recording;
    recording.clock = value.at("clock").string();
    if (const auto residual = value.find("clock_residual_ns"))
      recording.clock_residual = Duration{residual->integer(0, max_time_ns)};
    recording.dropped_records = value.at("dropped_records").integer(0, max_count);
    for (const JsonValue& note : value.at("notes").elements())
      recording.notes.push_back(note.string());
    if (const auto memory = value.find("memory"))
      for (const JsonValue& holder : memory->elements())
        recording.memory.push_back(holder_of(holder));
  }

  static MemoryHolder holder_of(const JsonValue& value) {
    MemoryHolder holder{.owner = value.at("owner").string(),
                        .place = required_enum<MemoryHolder::Place>(value.at("place"), places)};
    for (const auto& [key, bytes] : {std::pair{"planned_bytes", &holder.planned},
                                     {"held_bytes", &holder.held},
                                     {"recorded_bytes", &holder.recorded}})
      if (const auto count = value.find(key))
        *bytes = Bytes{count->integer(-max_payload, max_payload)};
    return holder;
  }

  void read_group(const JsonValue& group) {
    std::vector<int> ranks;
    for (const JsonValue& rank : group.at("ranks").elements()) {
      ranks.push_back(static_cast<int>(rank.integer(0, max_int)));
    }
    groups_.push_back({group.at("name").string(), std::move(ranks)});
  }

  void read_operation_facts(const JsonValue& value) {
    OperationFacts facts;
    facts.operation = OperationId::of(
        static_cast<std::size_t>(value.at("id").integer(0, OperationId::none_value - 1)));
    facts.name = value.at("name").string();
    facts.kind = required_enum<OperationKind>(value.at("kind"), operation_kinds);
    facts.phase = required_enum<Phase>(value.at("phase"), phases);
    facts.micro_batch = static_cast<std::int32_t>(value.at("micro_batch").integer(0, max_int));
    facts.unit = value.at("unit").string();
    facts.bytes = {value.at("bytes").integer(0, max_payload)};
    facts.flops = {value.at("flops").integer(0)};
    facts.elements_in = value.at("elements_in").integer(0, max_count);
    facts.elements_out = value.at("elements_out").integer(0, max_count);
    facts.dtype = parse_dtype(value.at("dtype").string(), value.at("dtype").where());
    if (const auto way = value.find("way")) facts.way = required_enum<CopyWay>(*way, copy_ways);
    if (const auto algorithm = text_in(value, "algorithm")) {
      facts.choice = {.algorithm = *algorithm,
                      .protocol = value.at("protocol").string(),
                      .channels = static_cast<int>(value.at("channels").integer(0, max_int))};
    }
    if (const auto module = text_in(value, "module")) facts.module = intern(*module);
    if (const auto shapes = text_in(value, "shapes")) facts.shapes = intern(*shapes);
    const JsonValue group = value.at("group");
    const std::int64_t index = group.integer(-1, static_cast<std::int64_t>(groups_.size()) - 1);
    if (index >= 0) {
      facts.group = groups_[static_cast<std::size_t>(index)].first;
      facts.ranks = groups_[static_cast<std::size_t>(index)].second;
    }
    trace().facts.push_back(std::move(facts));
  }

  std::uint32_t intern(const std::string& name) {
    const auto [at, is_new] =
        name_index_.try_emplace(name, static_cast<std::uint32_t>(trace().names.size()));
    if (is_new) trace().names.push_back(name);
    return at->second;
  }

  void read_event(const JsonValue& event) {
    ++result_.statistics.events_read;
    const std::string_view problem = keep(event);
    if (problem.empty()) {
      ++result_.statistics.events_kept;
    } else {
      ++result_.statistics.skipped[std::string(problem)];
    }
  }

  /// Empty when the event was kept, else why not.
  std::string_view keep(const JsonValue& event) {
    if (!event.is_object()) return "not an object";
    const auto phase = text_in(event, "ph");
    if (!phase) return "no phase";
    if (*phase == "C") return keep_counter(event);
    if (*phase == "M" || *phase == "s" || *phase == "f") return derived_event;
    const auto args = object_in(event, "args");
    const auto own = args ? object_in(*args, "shardscope") : std::nullopt;
    if (!own) return "not written by shardscope";
    if (own->has("derived")) return derived_event;
    if (*phase == "X") return keep_span(event, *own);
    if (*phase == "i") return keep_memory(event, *own);
    return "unknown phase";
  }

  std::string_view keep_span(const JsonValue& event, const JsonValue& own) {
    const auto start = time_in(event, "ts");
    const auto duration = time_in(event, "dur");
    if (!start || !duration || duration->ns < 0) return "a span without a usable time";
    const auto track =
        integer_in(own, "track", 0, static_cast<std::int64_t>(trace().tracks.size()) - 1);
    const auto step = integer_in(own, "step", 0, max_int);
    const auto name = text_in(own, "name");
    Span span{.start = *start, .duration = *duration};
    const bool is_complete = track && step && name && read_span_class(own, span.span_class) &&
                             read_operation(own, span.operation);
    if (!is_complete) return "a span with a wrong field";
    const bool is_busy = span.span_class != SpanClass::annotation;
    if (is_busy && span.duration > Duration{max_busy_ns}) return "a span without a usable time";
    if (!keep_measures(own)) return "a span with a wrong field";
    span.name = intern(*name);
    span.track = static_cast<std::uint16_t>(*track);
    span.step = static_cast<std::int32_t>(*step);
    trace().spans.push_back(span);
    return {};
  }

  /// Only of known measures; one that has none is fine.
  bool keep_measures(const JsonValue& own) {
    const auto measures = own.find("measures");
    if (!measures) return true;
    if (!measures->is_object()) return false;
    std::vector<SpanMeasure> rows;
    for (const auto& [name, value] : measures->members()) {
      const auto known = std::ranges::find(trace().measures, name);
      if (known == trace().measures.end() || !value.is_integer()) return false;
      rows.push_back({.span = static_cast<std::uint32_t>(trace().spans.size()),
                      .measure = static_cast<std::uint16_t>(known - trace().measures.begin()),
                      .value = value.integer()});
    }
    trace().span_measures.insert(trace().span_measures.end(), rows.begin(), rows.end());
    return true;
  }

  std::string_view keep_counter(const JsonValue& event) {
    const auto own = object_in(event, "shardscope");
    if (!own) return derived_event;
    const auto index =
        integer_in(*own, "counter", 0, static_cast<std::int64_t>(trace().counters.size()) - 1);
    const auto time = time_in(event, "ts");
    const auto args = object_in(event, "args");
    if (!index || !time || !args) return "a counter with a wrong field";
    Counter& counter = trace().counters[static_cast<std::size_t>(*index)];
    const auto value = integer_in(*args, counter.name, -max_count, max_count);
    if (!value) return "a counter with a wrong field";
    counter.samples.push_back({.time = *time, .value = *value});
    return {};
  }

  std::string_view keep_memory(const JsonValue& event, const JsonValue& own) {
    const auto time = time_in(event, "ts");
    if (!time) return "a memory sample without a usable time";
    MemorySample sample{.time = *time};
    const auto live = own.find("live_bytes");
    const bool has_categories = live && live->is_array() && live->size() == memory_category_count;
    const bool has_held = read_held(own, "active_bytes", sample.active) &&
                          read_held(own, "reserved_bytes", sample.reserved);
    if (!has_categories || !has_held || !read_operation(own, sample.operation))
      return "a memory sample with a wrong field";
    for (std::size_t i = 0; i < memory_category_count; ++i) {
      const JsonValue bytes = (*live)[i];
      if (!bytes.is_integer()) return "a memory sample with a wrong field";
      const std::int64_t count = bytes.integer();
      if (count < -max_count || count > max_count) return "a memory sample with a wrong field";
      sample.live.by[i] = {count};
    }
    trace().memory.push_back(sample);
    return {};
  }

  const JsonValue& document_;
  OwnTrace result_;
  std::vector<std::pair<std::string, std::vector<int>>> groups_;
  std::unordered_map<std::string, std::uint32_t> name_index_;
};

}  // namespace

OwnTrace parse_chrome_trace(std::string_view text, std::string_view file_name) {
  const JsonValue document = JsonValue::parse(text, file_name);
  return Reader(document).read();
}

OwnTrace read_chrome_trace(const std::filesystem::path& path, std::int64_t max_text_bytes) {
  std::string content = read_whole(path, std::min(max_file_bytes, max_text_bytes));
  if (is_gzip(content)) content = gunzip(content, max_text_bytes, path.string());
  return parse_chrome_trace(content, path.string());
}

}  // namespace shardscope
