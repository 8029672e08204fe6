// What a running job says of itself in its run folder, and how others ask it for a window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "backend/profile/window_schedule.h"

namespace shardscope {

/// A window that somebody asked for; its results are there when comparison.json is, unless it
/// `failed`.
struct WindowNotice {
  std::string request;  ///< WindowRequest::id
  StepRange steps;
  std::string failed = {};  ///< why there will be no results; "": nothing failed yet
  bool operator==(const WindowNotice&) const = default;
};

/// running.json of a run folder (docs/cli.md): there from the first step to the end.
struct JobNotice {
  std::string process;  ///< of rank 0, own_identity()
  std::string host;     ///< its name
  std::int64_t steps = 0;
  std::optional<WindowNotice> window;  ///< of the last request that is or was followed
  std::string refused;  ///< the last request that came while a window was open or no step was left
  bool operator==(const JobNotice&) const = default;
};

/// Of this process.
JobNotice own_notice(std::int64_t steps);

std::string to_json(const JobNotice& notice);
/// None where no job runs, or none that was ended in order.
std::optional<JobNotice> read_notice(const std::filesystem::path& run_folder);

/// Where a window's results lie: RUN/profiles/<first>-<last>.
std::filesystem::path folder_of_window(const std::filesystem::path& run_folder, StepRange steps);

/// Somebody's wish for a window, left in the run folder before the job is woken by SIGUSR1.
struct WindowRequest {
  std::string id;  ///< of who asks, own_identity()
  int steps = 0;
};

/// False where another request lies there. Throws Error where it cannot be written.
bool leave_request(const std::filesystem::path& run_folder, const WindowRequest& request);
/// Takes it away; none where nobody asks.
std::optional<WindowRequest> take_request(const std::filesystem::path& run_folder);

/// Rank 0's notice, kept true by it: written whole at every change, and removed at the end, with
/// requests that nobody heard. Where it cannot be written, that is told once on standard error and
/// ends nothing.
class JobNoticeFile {
 public:
  JobNoticeFile(std::filesystem::path run_folder, JobNotice notice);
  JobNoticeFile(const JobNoticeFile&) = delete;
  JobNoticeFile& operator=(const JobNoticeFile&) = delete;
  ~JobNoticeFile();

  const JobNotice& notice() const { return notice_; }
  void show(const WindowNotice& window);
  void refuse(const std::string& request);

 private:
  void write();

  std::filesystem::path folder_;
  JobNotice notice_;
  bool told_ = false;  ///< that it could not be written
};

}  // namespace shardscope
