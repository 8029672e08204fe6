// What a job says of itself in its run folder while it starts and runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/profile/window_schedule.h"

namespace shardscope {

/// How far a request for a window has come. Its results are there when comparison.json is.
enum class WindowState : std::uint8_t {
  refused,  ///< there is no window, for the reason
  open,     ///< its steps run, or are the next ones
  closed,   ///< its steps are done; the results follow
  failed    ///< its results will not come, for the reason
};

/// The job's answer to one request.
struct WindowAnswer {
  std::string request;  ///< WindowRequest::id
  WindowState state = WindowState::refused;
  StepRange steps;     ///< of the window; 0 to 0 where refused
  std::string reason;  ///< why it was refused or has failed
  bool operator==(const WindowAnswer&) const = default;
};

enum class JobState : std::uint8_t {
  starting,  ///< no rank listens yet
  running,
  ended  ///< in order; left so that the last answers can still be read
};

/// running.json of a run folder (docs/cli.md).
struct JobNotice {
  JobState state = JobState::running;
  std::string process;  ///< of rank 0, or of who starts it; own_identity()
  std::string host;     ///< its name
  std::int64_t steps = 0;
  std::vector<WindowAnswer> answers;  ///< the last `kept_answers`, the latest last
  bool operator==(const JobNotice&) const = default;

  /// Null where there is none, or none any more.
  const WindowAnswer* answer_to(const std::string& request) const;
};

inline constexpr std::size_t kept_answers = 16;

/// Of this process.
JobNotice own_notice(std::int64_t steps);

std::string to_json(const JobNotice& notice);
/// None where there is none. What it says may be left over from a process that was killed.
std::optional<JobNotice> read_notice(const std::filesystem::path& run_folder);

/// Where a window's results lie: RUN/profiles/<first>-<last>.
std::filesystem::path folder_of_window(const std::filesystem::path& run_folder, StepRange steps);

/// Rank 0's notice, kept true by it: written whole at every change. At the end it is removed, with
/// requests that nobody heard; where it holds answers, it stays and says that the job has ended.
/// Where it cannot be written, that is told once on standard error and ends nothing.
class JobNoticeFile {
 public:
  JobNoticeFile(std::filesystem::path run_folder, JobNotice notice);
  JobNoticeFile(const JobNoticeFile&) = delete;
  JobNoticeFile& operator=(const JobNoticeFile&) = delete;
  ~JobNoticeFile();

  const JobNotice& notice() const { return notice_; }
  /// A window's steps are the next ones.
  void open(const std::string& request, StepRange steps);
  void refuse(const std::string& request, const std::string& reason);
  /// The window that began with `steps.first` is over, and may have ended early; nothing where
  /// nobody asked for it.
  void close(StepRange steps);
  /// Likewise: its results will not come.
  void fail(StepRange steps, const std::string& reason);

 private:
  void add(WindowAnswer answer);
  WindowAnswer* window_from(std::int64_t first_step);
  void write();

  std::filesystem::path folder_;
  JobNotice notice_;
  bool told_ = false;  ///< that it could not be written
};

/// Says that a job starts, for as long as this lives and nobody has said more.
class StartingNotice {
 public:
  StartingNotice(std::filesystem::path run_folder, std::int64_t steps);
  StartingNotice(const StartingNotice&) = delete;
  StartingNotice& operator=(const StartingNotice&) = delete;
  ~StartingNotice();

 private:
  std::filesystem::path folder_;
};

}  // namespace shardscope
