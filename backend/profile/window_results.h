// What becomes of a window's traces once it is closed: on a thread beside the run's.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "backend/profile/window_schedule.h"
#include "backend/profile/windows_done.h"
#include "backend/rendezvous/environment.h"
#include "backend/watch/job_session.h"
#include "traces/differences.h"
#include "traces/trace.h"

namespace shardscope {

struct WindowResultsPlace {
  std::filesystem::path run_folder;
  const Environment& environment;
  JobSession* session = nullptr;  ///< null: of one rank
};

/// What came of a window.
struct WindowOutcome {
  StepRange steps;
  std::string text;    ///< for people; "": nothing to say
  std::string failed;  ///< why nothing is there that was to be there; "": it is
};

/// Leaves in RUN/profiles/<first>-<last>/ each rank's trace, and by rank 0 how they
/// compare with the prediction. What fails is told, here and to rank 0, and ends no run.
class WindowResults {
 public:
  explicit WindowResults(const WindowResultsPlace& place) : place_(place) {}
  WindowResults(const WindowResults&) = delete;
  WindowResults& operator=(const WindowResults&) = delete;
  /// Peers that have not left theirs are not waited for any longer.
  ~WindowResults() { gives_up_ = true; }

  /// Are the results of the window before there, within `longest`?
  bool is_free(std::chrono::milliseconds longest) const;
  /// The results of the window before must have been taken.
  void start(StepRange steps, Trace trace);
  /// This rank leaves nothing of the window, for it is not done with the one before.
  void skip(StepRange steps) { skipped_.push_back(steps); }
  /// Those that are finished, all of them with `wait`. A window that was skipped comes after the
  /// one that was in its way.
  std::vector<WindowOutcome> take(bool wait);

 private:
  WindowOutcome leave(StepRange steps, Trace trace);
  /// Why the trace could not be written; "" where it was.
  std::string write(StepRange steps, const Trace& trace) const;
  WindowOutcome compare(StepRange steps, Trace own, std::vector<MissingTrace> missing) const;
  /// Those that failed to leave their trace.
  std::vector<MissingTrace> wait_for_peers(StepRange steps, TcpStore& store) const;
  WindowOutcome tell_skipped(StepRange steps);

  WindowResultsPlace place_;
  WindowsDone done_;  ///< of the thread that writes; of the run's while there is none
  std::vector<StepRange> skipped_;
  std::atomic<bool> gives_up_ = false;
  std::future<WindowOutcome> pending_;  ///< last: its thread uses what stands above
};

}  // namespace shardscope
