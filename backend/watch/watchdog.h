// Holds the deadlines of a job's collectives, and says whose fault it is when one is missed.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/base/time_limit.h"
#include "backend/comm/communicator.h"
#include "backend/watch/call_timeout.h"
#include "backend/watch/diagnosis.h"
#include "backend/watch/flight_recorder.h"
#include "backend/watch/meeting.h"
#include "core/base/error.h"

namespace shardscope {

/// A thread beside a rank's own. In trouble (a collective takes longer than the deadline, a library
/// reports a failure, a rank fails or dies) it aborts the communicators, tells the other ranks
/// through the store what this one is doing, leaves flight.<rank>.json, and finds out who is late;
/// all ranks come to the same verdict within a few seconds. A rank whose own thread does not end
/// after that is ended, and so is one of this host that gives no answer, or whose driver does not
/// come back to the watchdog itself. While all goes well, each
/// rank asks the store now and then whether another one is in trouble, and that is all.
class Watchdog {
 public:
  /// `folder`: where the flight record goes; empty: nowhere. `meeting` must outlive it.
  Watchdog(Meeting& meeting, std::filesystem::path folder);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Leaves the job: in order, or as a lost rank while an exception is under way.
  ~Watchdog();

  FlightRecorder& recorder() { return recorder_; }
  /// From now on, until `release`, `world` is what is aborted, and its queue is watched.
  void watch(Communicator& world);
  void release();
  /// The call `sequence` has queued collectives up to (not with) number `end` of the queue.
  void note_queued(std::uint64_t sequence, std::uint64_t end);

  /// For a rank's thread whose collective failed with `error`: waits for the verdict, throws it.
  [[noreturn]] void fail(const Error& error);
  /// For a rank that ends because of `error`: tells the others. Returns whether it falls to this
  /// process to print the error: one does for the whole job, or our launcher.
  bool report(const Error& error);

 private:
  struct Queued {
    std::uint64_t sequence = 0;
    std::uint64_t end = 0;
  };

  void serve();
  std::optional<Trouble> look();
  std::optional<Trouble> own_trouble();
  std::optional<Trouble> others_trouble();
  std::optional<Trouble> early_leaver();
  Trouble agree_on(const Trouble& mine);
  std::string follow_queue(std::chrono::milliseconds limit);
  void handle(const Trouble& trouble);
  Verdict agreed_verdict(const Trouble& trouble, const RankStatement& mine);
  Verdict gather_and_judge(const Trouble& trouble);
  void write_record(const Verdict& verdict, const FlightSnapshot& snapshot) const;
  void end_silent_ranks(const Trouble& trouble, const Verdict& verdict);
  void wait_for_records(const Verdict& verdict);
  void conclude(const Trouble& trouble, const Verdict& verdict);
  void abort_communicators(const std::string& why);
  Error error_of(const Verdict& verdict) const;
  void wait_or_end_process();
  void end_stuck_process();
  template <class Ask>
  bool ask_store(Ask ask);

  Meeting& meeting_;
  std::filesystem::path folder_;
  FlightRecorder recorder_;
  std::optional<TcpStore> store_;  ///< of the thread; nothing once it is gone

  std::mutex mutex_;
  std::condition_variable changed_;
  Communicator* watched_ = nullptr;
  std::vector<Queued> queued_;
  std::optional<Trouble> raised_;   ///< by this rank's own thread
  std::optional<Trouble> trouble_;  ///< that all agreed on
  std::optional<Error> verdict_;
  bool judges_ = false;  ///< this rank reached the verdict for all
  bool stopping_ = false;
  TimeLimit::Clock::time_point next_poll_{};
  TimeLimit end_{std::chrono::hours(24)};  ///< of this process, once there is trouble
  CallTimeout call_timeout_{[this] { end_stuck_process(); }};
  std::thread thread_;
};

}  // namespace shardscope
