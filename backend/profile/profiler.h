// The windows of one rank's run: opens and closes them between steps, and leaves their traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/executor/executor.h"
#include "backend/executor/profiled_trace.h"
#include "backend/executor/stop_requests.h"
#include "backend/profile/instrument.h"
#include "backend/profile/job_notice.h"
#include "backend/profile/profile_signal.h"
#include "backend/profile/rank_clock.h"
#include "backend/profile/window_request.h"
#include "backend/profile/window_results.h"
#include "backend/profile/window_schedule.h"
#include "backend/rendezvous/environment.h"
#include "backend/watch/job_session.h"
#include "core/native/job.h"

namespace shardscope {

/// What the profiler measures, and where.
struct ProfilerPlace {
  const Job& job;
  const Environment& environment;
  Executor& executor;
  ProfileSignal& signal;               ///< that asks this rank
  JobSession* session = nullptr;       ///< null: of one rank
  std::chrono::milliseconds deadline;  ///< longest wait for another rank
  /// Of training at a window's end, for the results of the window before.
  std::chrono::milliseconds longest_stall{1000};
  std::string device;         ///< as the trace names it
  bool tells_results = true;  ///< else only what failed
};

/// Between steps only, on the thread that trains. The run goes on unchanged: a window changes what
/// is noted of its steps, and never what they compute.
class Profiler {
 public:
  /// What `place` refers to must outlive this. Rank 0 leaves running.json in the run folder.
  explicit Profiler(const ProfilerPlace& place);

  /// Of all windows; in the order in which they are started.
  void add(std::unique_ptr<Instrument> instrument) {
    instruments_.push_back(std::move(instrument));
  }
  /// Sets a trace of this rank whose time 0 is `base_monotonic_ns` by the clock that all ranks go
  /// by; collective.
  void set_clock(Trace& trace, std::int64_t base_monotonic_ns);
  /// As the window that closed last, or is closing, has found it: the same for all ranks of a host.
  const ClockOffset& clock() const { return clock_.unix_minus_monotonic; }

  /// Did somebody ask this rank for a window since the last step?
  void add_request(StopRequests& requests);
  /// Before `step`: opens the window that begins with it. True where the executor is to time the
  /// step operation by operation; other steps of a window are timed by an instrument.
  bool before_step(std::int64_t step);
  /// After `step`, with what any rank asked for.
  void after_step(std::int64_t step, const StopRequests& requests);
  /// Closes what is open and waits until all windows' results are there.
  void finish();

  /// What is to be said to people since this was asked last; "" where nothing is.
  std::string take_news();

 private:
  void open(StepRange steps);
  void close(std::int64_t last_step);
  void answer(std::int64_t step, const StopRequests& requests);
  /// Why no window begins after `step`.
  std::string why_none(std::int64_t step) const;
  Trace trace_of_window(StepRange steps);
  void find_clock();
  void note_clock(Trace& trace, std::int64_t base_monotonic_ns) const;
  void collect_results(bool wait);
  void say(std::string_view text);

  ProfilerPlace place_;
  std::vector<std::unique_ptr<Instrument>> instruments_;
  WindowSchedule schedule_;
  std::optional<JobNoticeFile> notice_;   ///< of rank 0
  std::optional<WindowRequest> request_;  ///< that rank 0 took before this step
  std::optional<StepRange> open_;
  bool replays_ = false;  ///< its steps, timed by an instrument
  CommonClock clock_;
  std::int64_t clock_meetings_ = 0;     ///< the same on all ranks
  std::vector<Probe*> usual_probes_;    ///< whom the executor tells outside of the window
  std::vector<RecordedStep> recorded_;  ///< of the open window; used again by the next
  std::size_t recorded_count_ = 0;
  std::string news_;
  WindowResults results_;
};

}  // namespace shardscope
