// Which of the things below a folder can be opened, and which of several like ones stand for them.
#pragma once

#include <filesystem>
#include <stop_token>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// Folders within folders are looked into so deep.
inline constexpr int deepest_folder = 4;
/// Scenarios that are opened at once, folders that are looked into, and files of one of them.
inline constexpr std::size_t most_scenarios = 64, most_folders = 4096, most_files = 4096;

/// Is it a trace, memory snapshot or timeline, or an archive that may hold some, by its first
/// bytes; also one of ours.
bool is_trace_file(const std::filesystem::path& path);
/// Does it begin like a trace that Shardscope wrote.
bool is_own_trace(const std::filesystem::path& path);
struct TraceFiles {
  std::vector<std::filesystem::path> files;  ///< by name
  std::vector<Finding> findings;             ///< what was not looked at
};
/// The files of a folder for which `is_trace_file` holds, of the first `most_files` that are named
/// like one. What was found so far on a stop request.
TraceFiles trace_files(const std::filesystem::path& folder, const std::stop_token& stop = {});

struct FoundFolders {
  std::vector<std::filesystem::path> runs;    ///< run folders of ours
  std::vector<std::filesystem::path> traces;  ///< folders with traces of others
  std::vector<Finding> findings;              ///< what was not looked into
};

/// `folder` itself or what lies below it, `deepest_folder` deep, by name. Not followed: links to
/// folders, hidden folders, and what lies in a run.
FoundFolders find_folders(const std::filesystem::path& folder, const std::stop_token& stop = {});

/// A run that stands for itself and for others of its label.
struct ChosenRun {
  std::filesystem::path path;
  std::vector<Finding> findings;  ///< which others there are
};

/// Of the runs of each label ("full_shard x2") the one with the median step time, the lower one of
/// two; in order of first appearance. A run whose summary cannot be read stands for itself.
std::vector<ChosenRun> median_runs(const std::vector<std::filesystem::path>& runs);

}  // namespace shardscope::gui
