#include "gui/data/file_stamps.h"

#include <algorithm>
#include <system_error>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "gui/data/open_run.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr int most_watched_ranks = 8;  ///< the others are written with them

std::vector<fs::path> files_of_run(const fs::path& path, int world) {
  const RunFolder run{path};
  std::vector<fs::path> files{run.summary(), run.metrics(), run.predicted_summary(),
                              run.predicted_trace()};
  for (int rank = 0; rank < std::min(world, most_watched_ranks); ++rank)
    files.push_back(run.trace(rank));
  return files;
}

}  // namespace

std::vector<fs::path> watched_files(const Scenario& scenario) {
  if (scenario.path.empty()) return {};
  const Summary* summary = scenario.summary();
  const int world = summary == nullptr ? 1 : summary->world;
  if (is_run_folder(scenario.path) || is_window_folder(scenario.path))
    return files_of_run(scenario.path, world);
  std::vector<fs::path> files;
  std::error_code ignored;
  if (scenario.profiled && fs::is_directory(scenario.path, ignored))
    for (const auto& trace : scenario.profiled->imported)
      files.push_back(scenario.path / trace->file);
  if (files.empty()) files.push_back(scenario.path);
  return files;
}

std::vector<FileStamp> stamps_of(const std::vector<fs::path>& files) {
  std::vector<FileStamp> stamps;
  for (const fs::path& file : files) {
    FileStamp stamp{.path = file};
    std::error_code failed;
    const auto changed = fs::last_write_time(file, failed);
    if (!failed) {
      stamp.changed = changed.time_since_epoch().count();
      const auto size = fs::file_size(file, failed);
      stamp.size = failed ? 0 : static_cast<std::int64_t>(size);  // a folder has none
    }
    stamps.push_back(std::move(stamp));
  }
  return stamps;
}

FileChange change_between(const std::vector<FileStamp>& before, const std::vector<FileStamp>& now) {
  if (before.empty() || before == now) return FileChange::none;
  for (const FileStamp& stamp : before) {
    const auto same = std::find_if(
        now.begin(), now.end(), [&](const FileStamp& other) { return other.path == stamp.path; });
    if (stamp.size >= 0 && same != now.end() && same->size < 0) return FileChange::gone;
  }
  return FileChange::changed;
}

bool is_job_running(const fs::path& run) {
  const fs::path file = run / "running.json";
  if (!is_there(file)) return false;
  try {
    const JsonValue json = JsonValue::read_file(file, DuplicateKeys::last_wins, 1 << 20);
    return json.at("state").string() == "running";
  } catch (const Error&) {
    return false;  // it is being written
  }
}

}  // namespace shardscope::gui
