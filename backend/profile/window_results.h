// What becomes of a window's traces once it is closed: on a thread beside the run's.
#pragma once

#include <atomic>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include "backend/launch/environment.h"
#include "backend/profile/window_schedule.h"
#include "backend/watch/job_session.h"
#include "traces/trace.h"

namespace shardscope {

struct WindowResultsPlace {
  std::filesystem::path run_folder;
  const Environment& environment;
  JobSession* session = nullptr;  ///< null: of one rank
};

/// Leaves in RUN/profiles/<first>-<last>/ each rank's trace, and by rank 0 how they
/// compare with the prediction. What fails is told and ends no run.
class WindowResults {
 public:
  explicit WindowResults(const WindowResultsPlace& place) : place_(place) {}
  WindowResults(const WindowResults&) = delete;
  WindowResults& operator=(const WindowResults&) = delete;
  /// Peers that have not left theirs are not waited for any longer.
  ~WindowResults() { gives_up_ = true; }

  /// The results of the window before must have been taken.
  void start(StepRange steps, Trace trace);
  /// What is to be said of the window; none while it is not finished, unless `wait`, and where
  /// there is none.
  std::optional<std::string> take(bool wait);

 private:
  std::string leave(StepRange steps, Trace trace) const;
  std::string compare(StepRange steps, Trace own) const;
  void wait_for_peers(StepRange steps, TcpStore& store) const;

  WindowResultsPlace place_;
  std::atomic<bool> gives_up_ = false;
  std::future<std::string> pending_;  ///< last: its thread uses what stands above
};

}  // namespace shardscope
