// A session: what is open and how it is looked at, as a file beside the data.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/data/appearance_choice.h"
#include "gui/data/time_map.h"
#include "gui/data/time_note.h"
#include "gui/data/time_range.h"

namespace shardscope::gui {

/// Ends the name of a session's file: "demo.shardscope-session.json".
inline constexpr std::string_view session_suffix = ".shardscope-session.json";
bool is_session_file(const std::filesystem::path& path);

struct Session {
  /// What was opened, in this order. In the file relative to its folder, so that data and session
  /// can be moved together.
  std::vector<std::filesystem::path> open;
  std::optional<std::filesystem::path> a, b;  ///< among `open`
  std::optional<TimeMode> time_mode;
  std::optional<int> step;  ///< that the axis begins with; none: the typical one
  std::optional<TimeRange> visible;
  std::optional<double> cursor_a, cursor_b;
  std::optional<TimeRange> cursor_range;
  std::string layout;  ///< QMainWindow::saveState() in base64; "": as it is
  std::optional<AppearanceChoice> appearance;
  std::vector<std::string> notes;
  std::vector<TimeNote> time_notes;  ///< paths as in `open`
  bool operator==(const Session&) const = default;
};

struct ReadSession {
  Session session;
  std::vector<std::string> complaints;  ///< one line each: keys that are not known or make no sense
};

/// Keys are optional, what makes no sense is left out and told. Throws Error where the file cannot
/// be read, is no JSON or no session.
ReadSession read_session(const std::filesystem::path& file);

/// Written atomically, with a newline at the end; Error where it cannot be.
void write_session(const Session& session, const std::filesystem::path& file);

}  // namespace shardscope::gui
