#include "traces/import/nsight_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "traces/import/classification.h"
#include "traces/import/name_table.h"
#include "traces/import/nsight_memory.h"
#include "traces/import/nsight_tracks.h"
#include "traces/import/sqlite_file.h"

namespace shardscope {
namespace {

constexpr std::int64_t max_busy_ns = std::int64_t{1} << 50;  // 13 days
constexpr std::int64_t max_time_ns = std::int64_t{1} << 62;
constexpr std::size_t max_events = UINT32_MAX - 1;
constexpr std::uint32_t max_link = std::uint32_t{1} << 31;
constexpr std::size_t events_between_reports = 1 << 16;
constexpr std::size_t longest_name = 1 << 16;
constexpr std::size_t text_block = 1 << 18;
constexpr std::string_view activity_prefix = "CUPTI_ACTIVITY_KIND_";

enum Table : std::size_t {
  kernels,
  copies,
  memsets,
  calls,
  synchronizations,
  ranges,
  memory_events,
  table_count
};
constexpr std::array<std::string_view, table_count> table_names{
    "CUPTI_ACTIVITY_KIND_KERNEL",          "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",          "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS",
    "CUDA_GPU_MEMORY_USAGE_EVENTS"};

/// Kineto's names, by number of ENUM_CUPTI_SYNC_TYPE.
constexpr std::array<std::string_view, 5> synchronization_names{
    "Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};

/// Nsight's global numbers hold a process in bits 24 to 47 and a thread below.
std::int64_t process_of(std::int64_t global) { return global / 0x1000000 % 0x1000000; }
std::int64_t thread_of(std::int64_t global) { return global % 0x1000000; }

/// emit_nvtx writes "aten::add, op_id = 7" or "aten::add, seq = 3, op_id = 7, sizes = [...]".
std::string_view without_numbers(std::string_view text) {
  return text.substr(0, std::min(text.find(", op_id = "), text.find(", seq = ")));
}

/// Texts by Nsight's own number.
using NumberedNames = std::unordered_map<std::int64_t, std::uint32_t>;

class NsightReader {
 public:
  NsightReader(const std::filesystem::path& path, const std::string& file,
               const ImportOptions& options)
      : database_(path, file), options_(options), text_(TextStore::temporary()) {
    trace_.file = file;
    report().format = "nsight";
    report().text_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  }

  ImportedTrace read() {
    const bool is_export = std::any_of(table_names.begin(), table_names.end(),
                                       [&](auto table) { return database_.has_table(table); });
    if (!is_export) {
      throw Error({.where = trace_.file,
                   .what = "an SQLite file, but no export of Nsight Systems: it has neither "
                           "CUPTI_ACTIVITY_KIND_KERNEL nor NVTX_EVENTS",
                   .way_out = "give what `nsys export --type sqlite` wrote"});
    }
    if (database_.is_cut()) remark("the file is damaged or cut off");
    read_header();
    read_strings();
    read_activities();
    read_calls();
    read_synchronizations();
    read_ranges();
    read_memory();
    end_open_ranges();
    read_thread_names();
    finish();
    return std::move(trace_);
  }

 private:
  ImportReport& report() { return trace_.report; }
  void odd(const char* what) { ++report().odd[what]; }
  void remark(std::string text) { report().guessed.push_back(std::move(text)); }

  /// Reads a table that need not be there.
  void rows(std::string_view table, std::span<const SqliteColumn> columns,
            const std::function<void(const SqliteRow&)>& visit) {
    if (!database_.has_table(table)) return;
    const std::string problem = database_.for_each_row(table, columns, [&](const SqliteRow& row) {
      visit(row);
      return trace_.events.size() < max_events;
    });
    if (!problem.empty()) remark(fmt::format("{}: {}", table, problem));
  }

  // --- what is about all ---

  void read_header() {
    constexpr std::array<SqliteColumn, 2> columns{{{"name"}, {"value"}}};
    rows("META_DATA_EXPORT", columns, [&](const SqliteRow& row) {
      if (row.text(0) == "EXPORT_SCHEMA_VERSION") {
        trace_.header.emplace_back(
            row.text(0), nlohmann::json(row.text(1))
                             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      }
    });
    constexpr std::array<SqliteColumn, 1> start{{{"utcEpochNs"}}};
    rows("TARGET_INFO_SESSION_START_TIME", start, [&](const SqliteRow& row) {
      const std::int64_t base = row.integer(0).value_or(0);
      trace_.base_ns = base > 0 && base < max_time_ns ? base : 0;
    });
    count_tables();
  }

  /// How many rows there are of each kind, and of which kinds none will be read.
  void count_tables() {
    nlohmann::ordered_json counts = nlohmann::ordered_json::object();
    for (const std::string& table : database_.tables()) {
      const bool is_read =
          std::find(table_names.begin(), table_names.end(), table) != table_names.end();
      if (!table.starts_with(activity_prefix) && !is_read) continue;
      const auto count = database_.row_count(table);
      counts[table] = count ? nlohmann::ordered_json(*count) : nlohmann::ordered_json();
      if (!is_read && count.value_or(0) > 0)
        remark(fmt::format("{} rows of {} are not read", *count, table));
    }
    trace_.header.emplace_back(
        "rows", counts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  void read_strings() {
    read_names("StringIds", "value", strings_);
    read_names("ENUM_CUDA_MEMCPY_OPER", "name", copy_kinds_);
    read_names("ENUM_NSYS_EVENT_TYPE", "name", range_types_);
  }

  void read_names(std::string_view table, const char* column, NumberedNames& names) {
    const std::array<SqliteColumn, 2> columns{{{"id"}, {column}}};
    rows(table, columns, [&](const SqliteRow& row) {
      const std::string_view text = row.text(1).substr(0, longest_name);
      if (const auto id = row.integer(0)) names[*id] = names_.intern(text);
    });
  }

  std::uint32_t named(const NumberedNames& names, std::optional<std::int64_t> id,
                      std::string_view otherwise) {
    const auto at = id ? names.find(*id) : names.end();
    if (at != names.end()) return at->second;
    odd("have no name");
    return names_.intern(otherwise);
  }

  std::uint32_t thread(std::optional<std::int64_t> global) {
    return tracks_.thread(process_of(global.value_or(0)), thread_of(global.value_or(0)));
  }

  // --- events ---

  struct Times {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    bool is_open = false;  ///< without an end
  };

  std::optional<Times> times(const SqliteRow& row, int start_column, int end_column) {
    ++report().events_read;
    const auto start = row.integer(start_column), end = row.integer(end_column);
    if (!start || *start > max_time_ns || *start < -max_time_ns) {
      ++report().skipped["no usable time"];
      return std::nullopt;
    }
    Times times{.start_ns = *start, .is_open = !end};
    if (!end) return times;
    if (*end < *start) odd("have a negative duration, taken as 0");
    const std::int64_t last = std::clamp(*end, *start, *start + max_busy_ns);
    if (*end > last) odd("last over 13 days, taken as that");
    times.duration_ns = last - *start;
    return times;
  }

  std::uint16_t category(std::string_view text) {
    auto& all = trace_.categories;
    const auto at = std::find(all.begin(), all.end(), text);
    if (at != all.end()) return static_cast<std::uint16_t>(at - all.begin());
    if (all.size() > UINT16_MAX - 1u) return 0;
    all.emplace_back(text);
    return static_cast<std::uint16_t>(all.size() - 1);
  }

  struct Place {
    std::uint32_t track = 0;
    std::uint32_t name = 0;
    std::uint16_t category = 0;
    char phase = 'X';
    std::int64_t correlation = 0;
  };

  void add(const Times& times, const Place& place, std::string_view text = {}) {
    EventColumns& events = trace_.events;
    events.start_ns.push_back(times.start_ns);
    events.duration_ns.push_back(times.duration_ns);
    events.text_offset.push_back(text_bytes_);
    events.text_length.push_back(static_cast<std::uint32_t>(text.size()));
    events.name.push_back(place.name);
    events.track.push_back(place.track);
    const bool is_link = place.correlation > 0 && place.correlation < max_link;
    events.link.push_back(is_link ? static_cast<std::uint32_t>(place.correlation) : 0);
    events.category.push_back(place.category);
    events.lane.push_back(0);
    events.phase.push_back(place.phase);
    events.span_class.push_back(SpanClass::host);
    pending_text_ += text;
    text_bytes_ += text.size();
    if (pending_text_.size() >= text_block) store_text();
    last_end_ns_ = std::max(last_end_ns_, times.start_ns + times.duration_ns);
    ++report().events_kept;
    if (events.size() % events_between_reports == 0) tell_progress();
  }

  void store_text() {
    text_.append(pending_text_);
    pending_text_.clear();
  }

  void tell_progress() {
    if (options_.progress && options_.progress(trace_, 0))
      throw Error({.where = trace_.file, .what = "stopped", .code = ExitCode::interrupted});
  }

  /// Correlation, device, process, context and stream, where `first` is the first of them.
  Place on_stream(const SqliteRow& row, int first, std::uint32_t name, std::uint16_t category) {
    const std::int64_t device = row.integer(first + 1).value_or(-1);
    const std::int64_t process = process_of(row.integer(first + 2).value_or(0));
    const std::int64_t context = row.integer(first + 3).value_or(0);
    const std::int64_t stream = row.integer(first + 4).value_or(0);
    return {.track = tracks_.stream({device, process, context, stream}),
            .name = name,
            .category = category,
            .correlation = row.integer(first).value_or(0)};
  }

  void read_activities() {
    const std::uint16_t kernel = category("kernel"), copy = category("gpu_memcpy"),
                        memset = category("gpu_memset");
    constexpr std::array<SqliteColumn, 9> kernel_columns{{{"start"},
                                                          {"end"},
                                                          {"correlationId", false},
                                                          {"deviceId"},
                                                          {"globalPid", false},
                                                          {"contextId", false},
                                                          {"streamId"},
                                                          {"demangledName", false},
                                                          {"shortName", false}}};
    rows(table_names[kernels], kernel_columns, [&](const SqliteRow& row) {
      const auto when = times(row, 0, 1);
      const auto demangled = row.integer(7);
      const auto id = demangled ? demangled : row.integer(8);
      if (when) add(*when, on_stream(row, 2, named(strings_, id, "kernel"), kernel));
    });
    constexpr std::array<SqliteColumn, 9> copy_columns{{{"start"},
                                                        {"end"},
                                                        {"correlationId", false},
                                                        {"deviceId"},
                                                        {"globalPid", false},
                                                        {"contextId", false},
                                                        {"streamId"},
                                                        {"bytes"},
                                                        {"copyKind", false}}};
    rows(table_names[copies], copy_columns, [&](const SqliteRow& row) {
      const auto when = times(row, 0, 1);
      if (when)
        add_copy(*when, on_stream(row, 2, named(copy_kinds_, row.integer(8), "Memcpy"), copy), row);
    });
    const std::span<const SqliteColumn> memset_columns = std::span(copy_columns).first(8);
    const std::uint32_t name = names_.intern("Memset");
    rows(table_names[memsets], memset_columns, [&](const SqliteRow& row) {
      const auto when = times(row, 0, 1);
      if (when) add_copy(*when, on_stream(row, 2, name, memset), row);
    });
  }

  void add_copy(const Times& when, const Place& place, const SqliteRow& row) {
    constexpr int bytes_column = 7;
    if (const auto bytes = row.integer(bytes_column))
      trace_.copied_bytes.push_back({static_cast<std::uint32_t>(trace_.events.size()), {*bytes}});
    add(when, place);
  }

  void read_calls() {
    const std::uint16_t runtime = category("cuda_runtime");
    constexpr std::array<SqliteColumn, 5> columns{
        {{"start"}, {"end"}, {"correlationId", false}, {"globalTid"}, {"nameId"}}};
    rows(table_names[calls], columns, [&](const SqliteRow& row) {
      const auto when = times(row, 0, 1);
      if (!when) return;
      add(*when, {.track = thread(row.integer(3)),
                  .name = named(strings_, row.integer(4), "call"),
                  .category = runtime,
                  .correlation = row.integer(2).value_or(0)});
    });
  }

  /// Waits of the host or of a stream; they lie beside the stream's activities.
  void read_synchronizations() {
    const std::uint16_t kind = category("cuda_sync");
    constexpr std::array<SqliteColumn, 8> columns{{{"start"},
                                                   {"end"},
                                                   {"correlationId", false},
                                                   {"deviceId"},
                                                   {"globalPid", false},
                                                   {"contextId", false},
                                                   {"streamId"},
                                                   {"syncType", false}}};
    rows(table_names[synchronizations], columns, [&](const SqliteRow& row) {
      const auto when = times(row, 0, 1);
      if (!when) return;
      const auto type = static_cast<std::uint64_t>(row.integer(7).value_or(0));
      const std::uint64_t known = type < synchronization_names.size() ? type : 0;
      add(*when, {.track = tracks_.beside({.device = row.integer(3).value_or(-1),
                                           .process = process_of(row.integer(4).value_or(0)),
                                           .context = row.integer(5).value_or(0),
                                           .stream = row.integer(6).value_or(-1)}),
                  .name = names_.intern(synchronization_names[known]),
                  .category = kind,
                  .correlation = row.integer(2).value_or(0)});
    });
  }

  /// Of memory on the device itself; pinned, pageable and managed memory is the host's, too.
  void read_memory() {
    const std::uint16_t kind = category("cuda_memory");
    constexpr std::array<SqliteColumn, 7> columns{{{"start"},
                                                   {"deviceId"},
                                                   {"globalPid", false},
                                                   {"address"},
                                                   {"bytes"},
                                                   {"memKind", false},
                                                   {"memoryOperationType"}}};
    std::vector<NsightAllocation> allocations;
    rows(table_names[memory_events], columns, [&](const SqliteRow& row) {
      const auto when = times(row, 0, 0);
      if (!when) return;
      const std::int64_t device = row.integer(1).value_or(-1);
      const std::int64_t process = process_of(row.integer(2).value_or(0));
      const bool is_free = row.integer(6).value_or(0) != 0;
      const auto memory = row.integer(5).value_or(device_memory);
      const auto event = static_cast<std::uint32_t>(trace_.events.size());
      add(*when, {.track = tracks_.beside({.device = device, .process = process, .stream = -1}),
                  .name = names_.intern(is_free ? "free" : "allocate"),
                  .category = kind,
                  .phase = 'i'});
      if (memory != device_memory && memory != static_device_memory)
        return odd("are of memory that is not the device's alone");
      const auto bytes = row.integer(4);
      allocations.push_back({.event = event,
                             .device = device,
                             .process = process,
                             .address = row.integer(3).value_or(0),
                             .bytes = bytes ? std::optional(Bytes{*bytes}) : std::nullopt,
                             .is_free = is_free});
    });
    const std::int64_t unknown = add_memory_changes(std::move(allocations), trace_);
    if (unknown > 0) report().odd["free memory whose size is not known"] += unknown;
  }

  void read_ranges() {
    constexpr std::array<SqliteColumn, 6> columns{{{"start"},
                                                   {"end"},
                                                   {"globalTid", false},
                                                   {"eventType", false},
                                                   {"text"},
                                                   {"textId", false}}};
    rows(table_names[ranges], columns, [&](const SqliteRow& row) {
      if (const auto when = times(row, 0, 1)) add_range(*when, row);
    });
  }

  void add_range(const Times& when, const SqliteRow& row) {
    std::string text(row.text(4));
    if (text.empty() && row.integer(5))
      text = names_.names()[named(strings_, row.integer(5), "range")];
    const std::string_view name = without_numbers(text).substr(0, longest_name);
    std::string json;
    if (name.size() < text.size())
      json = nlohmann::json{{"text", text}}.dump(-1, ' ', false,
                                                 nlohmann::json::error_handler_t::replace);
    const auto type = row.integer(3);
    const auto known = type ? range_types_.find(*type) : range_types_.end();
    const std::uint16_t of_type =
        category(known == range_types_.end() ? "nvtx" : names_.names()[known->second]);
    // NOLINTNEXTLINE(misc-redundant-expression): two constants that are defined below
    const bool is_range = type == push_pop_range || type == start_end_range;
    const char phase = !when.is_open ? 'X' : is_range ? 'B' : 'i';
    if (phase == 'B') open_.push_back(static_cast<std::uint32_t>(trace_.events.size()));
    add(when,
        {.track = thread(row.integer(2)),
         .name = names_.intern(name),
         .category = of_type,
         .phase = phase},
        json);
  }

  void end_open_ranges() {
    for (const std::uint32_t event : open_) {
      const std::int64_t lasted = last_end_ns_ - trace_.events.start_ns[event];
      trace_.events.duration_ns[event] = std::clamp<std::int64_t>(lasted, 0, max_busy_ns);
      odd("have no end, taken to last to the end of the trace");
    }
  }

  void read_thread_names() {
    constexpr std::array<SqliteColumn, 2> columns{{{"globalTid"}, {"nameId"}}};
    rows("ThreadNames", columns, [&](const SqliteRow& row) {
      const auto thread = row.integer(0), id = row.integer(1);
      const auto name = id ? strings_.find(*id) : strings_.end();
      if (!thread || name == strings_.end()) return;
      tracks_.name_thread(process_of(*thread), thread_of(*thread), names_.names()[name->second]);
    });
  }

  void finish() {
    store_text();
    trace_.names = std::move(names_).take();
    if (tracks_.is_full()) remark("more than 131,072 tracks, the last ones as one");
    trace_.tracks = std::move(tracks_).take();
    trace_.text = std::make_shared<const TextStore>(std::move(text_));
    remark("the file does not say which rank it is");
    lay_out(trace_);
    classify(trace_, class_rules(Definitions::own));
  }

  // NVTX's kinds that last (ENUM_NSYS_EVENT_TYPE).
  static constexpr std::int64_t push_pop_range = 59, start_end_range = 60;
  // Kinds of memory (ENUM_CUDA_MEM_KIND).
  static constexpr std::int64_t device_memory = 2, static_device_memory = 5;

  SqliteFile database_;
  const ImportOptions& options_;
  ImportedTrace trace_;
  TextStore text_;
  std::string pending_text_;
  std::uint64_t text_bytes_ = 0;
  NameTable names_;
  NumberedNames strings_, copy_kinds_, range_types_;
  NsightTracks tracks_;
  std::vector<std::uint32_t> open_;  ///< ranges without an end
  std::int64_t last_end_ns_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

ImportedTrace read_nsight(const std::filesystem::path& path, const std::string& file,
                          const ImportOptions& options) {
  return NsightReader(path, file, options).read();
}

}  // namespace shardscope
