// Whether the files that a scenario was read from are still as they were.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

struct FileStamp {
  std::filesystem::path path;
  std::int64_t size = -1;    ///< -1: it is not there
  std::int64_t changed = 0;  ///< the file system's clock, in its own ticks
  bool operator==(const FileStamp&) const = default;
};

/// The files that show whether there is something new to read: of a run folder its summaries,
/// metrics and traces, those that are yet to come among them; of others what was opened.
std::vector<std::filesystem::path> watched_files(const Scenario& scenario);

std::vector<FileStamp> stamps_of(const std::vector<std::filesystem::path>& files);

enum class FileChange : std::uint8_t { none, changed, gone };

/// `gone`: one that was there is not any more. An empty `before` is not known yet: none.
FileChange change_between(const std::vector<FileStamp>& before, const std::vector<FileStamp>& now);

/// Does the folder's running.json say that its job runs; false where it cannot be read.
bool is_job_running(const std::filesystem::path& run);

}  // namespace shardscope::gui
