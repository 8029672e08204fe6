#include "gui/window/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"
#include "core/format/json_string.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view schema = "shardscope.session/1";
constexpr std::int64_t most_bytes = 4 << 20;
constexpr std::size_t most_open = 256, most_notes = 1000;
constexpr std::int64_t most_rank = 1 << 20, most_step = 1 << 30;
constexpr double latest_ns = 9e15;  ///< exact in a double; 104 days
constexpr std::array time_modes{TimeMode::time, TimeMode::step, TimeMode::unit};

fs::path folder_of(const fs::path& file) {
  std::error_code ignored;
  return fs::absolute(file, ignored).lexically_normal().parent_path();
}

class Reader {
 public:
  Reader(const JsonValue& json, fs::path folder) : json_(json), folder_(std::move(folder)) {}

  ReadSession read() {
    for (const auto& [key, value] : json_.members()) {
      const auto found = std::find_if(keys.begin(), keys.end(),
                                      [&key = key](const Key& known) { return known.name == key; });
      if (found == keys.end()) {
        result_.complaints.push_back(value.where() + ": is not known here, and was passed over");
        continue;
      }
      try {
        (this->*found->read)(value);
      } catch (const Error& error) {
        result_.complaints.push_back(std::string(error.what()) + "; passed over");
      }
    }
    return std::move(result_);
  }

 private:
  struct Key {
    std::string_view name;
    void (Reader::*read)(const JsonValue&);
  };
  static const std::array<Key, 12> keys;

  fs::path path_of(const JsonValue& value) const {
    const std::string text = value.string();
    if (text.empty() || text.find('\0') != std::string::npos)
      throw value.error("expected a path, got \"" + text + "\"");
    return (folder_ / text).lexically_normal();
  }

  static TimeRange range_of(const JsonValue& value) {
    if (!value.is_array() || value.size() != 2)
      throw value.error("expected the two ends of a range in nanoseconds");
    const TimeRange range{.begin = value[0].number(-latest_ns, latest_ns),
                          .end = value[1].number(-latest_ns, latest_ns)};
    if (!(range.length() > 0)) throw value.error("expected a range that ends after it begins");
    return range;
  }

  template <class Each>
  static void each(const JsonValue& value, std::size_t most, const Each& take) {
    const std::size_t count = value.size();
    if (count > most)
      throw value.error(fmt::format("has {} entries, and {} is the most", count, most));
    for (std::size_t i = 0; i < count; ++i) take(value[i]);
  }

  Session& session() { return result_.session; }

  void read_schema(const JsonValue&) {}
  void read_open(const JsonValue& value) {
    each(value, most_open, [&](const JsonValue& one) { session().open.push_back(path_of(one)); });
  }
  void read_a(const JsonValue& value) { session().a = path_of(value); }
  void read_b(const JsonValue& value) { session().b = path_of(value); }
  void read_time_mode(const JsonValue& value) {
    const std::string name = value.string();
    for (const TimeMode mode : time_modes)
      if (name_of(mode) == name) session().time_mode = mode;
    if (!session().time_mode)
      throw value.error("expected time, step or unit, got \"" + name + "\"");
  }
  void read_step(const JsonValue& value) {
    session().step = static_cast<int>(value.integer(1, most_step));
  }
  void read_visible(const JsonValue& value) { session().visible = range_of(value); }
  void read_cursors(const JsonValue& value) {
    if (const auto a = value.find("a")) session().cursor_a = a->number(-latest_ns, latest_ns);
    if (const auto b = value.find("b")) session().cursor_b = b->number(-latest_ns, latest_ns);
    if (const auto range = value.find("range")) session().cursor_range = range_of(*range);
  }
  void read_layout(const JsonValue& value) { session().layout = value.string(); }
  void read_appearance(const JsonValue& value) {
    const std::string name = value.string();
    const auto found = std::find(appearance_names.begin(), appearance_names.end(), name);
    if (found == appearance_names.end())
      throw value.error("expected system, light or dark, got \"" + name + "\"");
    session().appearance = static_cast<AppearanceChoice>(found - appearance_names.begin());
  }
  void read_notes(const JsonValue& value) {
    each(value, most_notes, [&](const JsonValue& one) { session().notes.push_back(one.string()); });
  }
  TimeNote time_note_of(const JsonValue& value) const {
    TimeNote note;
    note.scenario = path_of(value.at("of"));
    const std::string side = value.at("side").string();
    if (side != name_of(SideKind::predicted) && side != name_of(SideKind::profiled))
      throw value.at("side").error("expected predicted or profiled, got \"" + side + "\"");
    note.side = side == name_of(SideKind::predicted) ? SideKind::predicted : SideKind::profiled;
    note.rank = static_cast<std::size_t>(value.at("rank").integer(0, most_rank));
    note.clock_ns = value.at("clock_ns").number(-latest_ns, latest_ns);
    note.text = value.at("text").string();
    return note;
  }
  void read_time_notes(const JsonValue& value) {
    each(value, most_notes,
         [&](const JsonValue& one) { session().time_notes.push_back(time_note_of(one)); });
  }

  const JsonValue& json_;
  fs::path folder_;
  ReadSession result_;
};

const std::array<Reader::Key, 12> Reader::keys{{{"schema", &Reader::read_schema},
                                                {"open", &Reader::read_open},
                                                {"a", &Reader::read_a},
                                                {"b", &Reader::read_b},
                                                {"time_mode", &Reader::read_time_mode},
                                                {"step", &Reader::read_step},
                                                {"visible_ns", &Reader::read_visible},
                                                {"cursors_ns", &Reader::read_cursors},
                                                {"layout", &Reader::read_layout},
                                                {"appearance", &Reader::read_appearance},
                                                {"notes", &Reader::read_notes},
                                                {"timeline_notes", &Reader::read_time_notes}}};

class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {}

  std::string text_of(const Session& session) {
    member("schema", quoted(schema));
    member("open", list(session.open, [&](const fs::path& path) { return path_text(path); }));
    if (session.a) member("a", path_text(*session.a));
    if (session.b) member("b", path_text(*session.b));
    if (session.time_mode) member("time_mode", quoted(name_of(*session.time_mode)));
    if (session.step) member("step", fmt::format("{}", *session.step));
    if (session.visible) member("visible_ns", range_text(*session.visible));
    if (const std::string cursors = cursors_text(session); cursors != "{}")
      member("cursors_ns", cursors);
    if (session.appearance)
      member("appearance", quoted(appearance_names[static_cast<std::size_t>(*session.appearance)]));
    if (!session.notes.empty())
      member("notes", list(session.notes, [](const std::string& note) { return quoted(note); }));
    if (!session.time_notes.empty())
      member("timeline_notes",
             list(session.time_notes, [&](const TimeNote& note) { return note_text(note); }));
    if (!session.layout.empty()) member("layout", quoted(session.layout));
    return "{" + text_ + "\n}\n";
  }

 private:
  void member(std::string_view key, const std::string& value) {
    text_ += fmt::format("{}\n  \"{}\": {}", text_.empty() ? "" : ",", key, value);
  }

  static std::string quoted(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
  }

  template <class Value, class Text>
  static std::string list(const std::vector<Value>& values, const Text& text) {
    std::string out;
    for (const Value& value : values) out += (out.empty() ? "" : ", ") + text(value);
    return "[" + out + "]";
  }

  std::string path_text(const fs::path& path) const {
    std::error_code ignored;
    const fs::path whole = fs::absolute(path, ignored).lexically_normal();
    const fs::path relative = whole.lexically_relative(folder_);
    return quoted((relative.empty() ? whole : relative).string());
  }

  std::string note_text(const TimeNote& note) const {
    return fmt::format(R"({{"of": {}, "side": "{}", "rank": {}, "clock_ns": {}, "text": {}}})",
                       path_text(note.scenario), name_of(note.side), note.rank, note.clock_ns,
                       quoted(note.text));
  }

  static std::string range_text(TimeRange range) {
    return fmt::format("[{}, {}]", range.begin, range.end);
  }

  static std::string cursors_text(const Session& session) {
    std::string text;
    const auto add = [&](std::string_view key, const std::string& value) {
      text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, value);
    };
    if (session.cursor_a) add("a", fmt::format("{}", *session.cursor_a));
    if (session.cursor_b) add("b", fmt::format("{}", *session.cursor_b));
    if (session.cursor_range) add("range", range_text(*session.cursor_range));
    return "{" + text + "}";
  }

  fs::path folder_;
  std::string text_;
};

}  // namespace

bool is_session_file(const fs::path& path) {
  return path.filename().string().ends_with(session_suffix);
}

ReadSession read_session(const fs::path& file) {
  const JsonValue json = JsonValue::read_file(file, DuplicateKeys::last_wins, most_bytes);
  const std::optional<JsonValue> says = json.find("schema");
  if (!says || !says->is_string() || says->string() != schema)
    throw json.error("is no session of Shardscope",
                     fmt::format("its key schema must be \"{}\"", schema));
  return Reader(json, folder_of(file)).read();
}

void write_session(const Session& session, const fs::path& file) {
  write_atomically(file, Writer(folder_of(file)).text_of(session));
}

}  // namespace shardscope::gui
