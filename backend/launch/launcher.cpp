#include "backend/launch/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/base/time_limit.h"
#include "backend/launch/child_process.h"
#include "backend/launch/rank_log.h"
#include "backend/rendezvous/environment.h"
#include "backend/rendezvous/tcp_store_server.h"
#include "backend/watch/job_report.h"
#include "core/format/is_there.h"

namespace shardscope {
namespace {

using std::chrono::milliseconds;

/// After a rank was lost, or said that it had lost one, the others get so much time to find out who
/// it was, to leave their records, and to end by themselves.
constexpr milliseconds wait_for_verdict{1500};

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};
constexpr int profile_signal = SIGUSR1;

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a descriptor, and back to what they were at the end. What
/// this process was started to ignore (nohup) stays ignored: a descriptor would deliver it all the
/// same. Not so SIGUSR1, which is ignored until somebody listens (`ignore_profile_signal`).
class SignalWatch {
 public:
  SignalWatch() {
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int number : stop_signals)
      if (!is_ignored(number)) ::sigaddset(&watched, number);
    ::sigaddset(&watched, profile_signal);
    ::pthread_sigmask(SIG_BLOCK, &watched, &before_);
    descriptor_ = FileDescriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  const FileDescriptor& descriptor() const { return descriptor_; }
  /// The next signal that came; 0: none.
  int take() const {
    signalfd_siginfo info;
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return 0;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t before_;
  FileDescriptor descriptor_;
};

struct Rank {
  ChildProcess process;
  RankLog log;
};

struct Failure {
  int rank = 0;
  ProcessEnd end;
  std::optional<std::string> told;  ///< what it said of its end

  bool says_peer_lost() const {
    return end.signal == 0 && end.exit_code == static_cast<int>(ExitCode::rank_lost) && !told;
  }
  /// The other ranks will find out for themselves, and may know more.
  bool concerns_all() const { return end.signal != 0 || says_peer_lost(); }
};

/// A rank's own code where it says what was wrong.
ExitCode own_code(const ProcessEnd& end) {
  for (const ExitCode own :
       {ExitCode::no, ExitCode::bad_input, ExitCode::outside, ExitCode::not_finite})
    if (end.signal == 0 && end.exit_code == static_cast<int>(own)) return own;
  return ExitCode::rank_lost;
}

Variables variables_of_rank(const Variables& ours, int rank, int ranks, int port) {
  Variables variables;
  for (const auto& [name, value] : ours) {
    if (!name.starts_with("TORCHELASTIC_")) variables.emplace(name, value);
  }
  for (const auto& [name, value] : Variables{{"RANK", std::to_string(rank)},
                                             {"WORLD_SIZE", std::to_string(ranks)},
                                             {"LOCAL_RANK", std::to_string(rank)},
                                             {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", std::to_string(port)},
                                             {launcher_variable, "1"}}) {
    variables[name] = value;
  }
  return variables;
}

/// The ranks of one launch, from their start to the end of the last one.
class RunningJob {
 public:
  RunningJob(const LaunchPlan& plan, int port) : plan_(plan), report_(port) {
    const Variables ours = process_variables();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      RankLog log = plan.log_folder.empty()
                        ? RankLog()
                        : RankLog(plan.log_folder / fmt::format("log.{}.txt", rank));
      ChildProcess process({.program = plan.program,
                            .arguments = plan.arguments,
                            .variables = variables_of_rank(ours, rank, plan.ranks, port),
                            .keeps_output = rank == 0});
      ranks_.push_back({std::move(process), std::move(log)});
    }
  }

  ExitCode watch(const SignalWatch& signals) {
    while (anyone_runs()) {
      wait_for_news(signals);
      read_outputs();
      while (const int number = signals.take()) pass_on(number);
      collect_ended();
      decide();
    }
    read_outputs();
    const bool failed = !failures_.empty() && !(died_of_stop_ && cause().says_peer_lost());
    if (failed) throw error_of(cause());
    return interrupted_ || died_of_stop_ ? ExitCode::interrupted : ExitCode::done;
  }

 private:
  bool anyone_runs() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.process.running(); });
  }

  void wait_for_news(const SignalWatch& signals) {
    polls_.clear();
    polls_.push_back({signals.descriptor().get(), POLLIN, 0});
    for (const Rank& rank : ranks_) {
      // Descriptors that are closed are -1, which poll passes over.
      polls_.push_back({rank.process.process().get(), POLLIN, 0});
      polls_.push_back({rank.process.output().get(), POLLIN, 0});
    }
    ::poll(polls_.data(), polls_.size(), next_step_.milliseconds_left(milliseconds(1000)));
  }

  void read_outputs() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) read_output(ranks_[i], i == 0);
  }

  /// A bounded amount, so that a rank that writes without end does not keep the others waiting.
  void read_output(Rank& rank, bool is_first) {
    char bytes[65536];
    if (!rank.process.output().valid()) return;
    const ssize_t got = ::read(rank.process.output().get(), bytes, sizeof bytes);
    if (got == 0) rank.process.close_output();
    if (got <= 0) return;
    const std::string_view text(bytes, static_cast<std::size_t>(got));
    rank.log.write(text);
    if (is_first) write_whole(STDERR_FILENO, text);
  }

  void signal_all(int number) const {
    for (const Rank& rank : ranks_) rank.process.signal(number);
  }

  void pass_on(int number) {
    // One rank tells all others.
    if (number == profile_signal) return ranks_.front().process.signal(number);
    if (asked_to_stop_) {
      interrupted_ = true;
      take_down();
      return;
    }
    asked_to_stop_ = true;
    signal_all(number);
  }

  void collect_ended() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (!rank.process.running()) continue;
      const std::optional<ProcessEnd> end = rank.process.collect();
      if (!end) continue;
      drain(rank, i == 0);
      note_end({.rank = static_cast<int>(i), .end = *end, .told = {}});
    }
  }

  /// What an ended rank had written last, which is no more than a pipe holds; the pipe is then
  /// closed even if somebody else still has its other end.
  void drain(Rank& rank, bool is_first) {
    for (int pieces = 0; pieces < 16; ++pieces) read_output(rank, is_first);
    rank.process.close_output();
  }

  void note_end(const Failure& ended) {
    const ProcessEnd& end = ended.end;
    if (end == ProcessEnd{}) return;
    if (end.signal == 0 && end.exit_code == static_cast<int>(ExitCode::interrupted)) {
      interrupted_ = true;
      return;
    }
    const bool stopped = std::count(stop_signals.begin(), stop_signals.end(), end.signal) != 0;
    if (asked_to_stop_ && stopped)
      died_of_stop_ = true;
    else if (!going_down_)
      note_failure(ended);
  }

  void note_failure(Failure failure) {
    if (failure.end.signal != 0) report_.tell_lost(failure.rank, text_of(failure.end));
    failure.told = report_.failure_of(failure.rank);
    if (failure.told)
      ranks_[static_cast<std::size_t>(failure.rank)].log.write("shardscope: " + *failure.told +
                                                               "\n");
    failures_.push_back(std::move(failure));
  }

  /// The failure that the others follow from: the first one that is not "I lost a peer".
  const Failure& cause() const {
    const auto first = std::find_if(failures_.begin(), failures_.end(),
                                    [](const Failure& f) { return !f.says_peer_lost(); });
    return first == failures_.end() ? failures_.front() : *first;
  }

  void decide() {
    if (going_down_) {
      if (next_step_.passed()) kill_all();
    } else if (died_of_stop_) {
      take_down();  // it was not yet ready to finish its step, so the others never can
    } else if (!failures_.empty()) {
      if (!cause().concerns_all()) {
        take_down();
      } else if (!awaits_verdict_) {
        awaits_verdict_ = true;
        next_step_ = TimeLimit(wait_for_verdict);
      } else if (next_step_.passed()) {
        // Who has not ended by itself then does not listen.
        report_.verdict() ? kill_all() : take_down();
      }
    }
  }

  void take_down() {
    if (going_down_) {
      kill_all();
      return;
    }
    going_down_ = true;
    signal_all(SIGTERM);
    next_step_ = TimeLimit(plan_.grace);
  }

  void kill_all() {
    going_down_ = true;
    signal_all(SIGKILL);
    next_step_ = TimeLimit(plan_.grace);
  }

  /// Where to look: the rank's log if it says anything, and the flight records that were left.
  std::string records_of(const Failure& failure, const std::string& last_line) const {
    if (plan_.log_folder.empty()) return "";
    std::string records;
    if (!last_line.empty())
      records = ranks_[static_cast<std::size_t>(failure.rank)].log.file().string();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!is_there(plan_.log_folder / fmt::format("flight.{}.json", rank))) continue;
      records += fmt::format("{}{}", records.empty() ? "" : " and ",
                             (plan_.log_folder / "flight.<rank>.json").string());
      break;
    }
    return records.empty() ? "" : "see " + records;
  }

  /// The one line about a job that failed.
  Error error_of(const Failure& failure) {
    const RankLog& log = ranks_[static_cast<std::size_t>(failure.rank)].log;
    const std::optional<Verdict> verdict = report_.verdict();
    const std::string last = log.last_line();
    Error::Parts parts{
        .where = fmt::format("rank {}", failure.rank),
        .what = text_of(failure.end) + (last.empty() ? "" : "; its last line: " + last),
        .way_out = records_of(failure, last),
        .code = own_code(failure.end)};
    if (failure.told) {
      parts.what = *failure.told;
    } else if (verdict && failure.says_peer_lost()) {
      parts.where = "";
      parts.what = fmt::format("{}; {}", verdict->cause, verdict->doing);
      parts.way_out = "see " + (plan_.log_folder / "flight.<rank>.json").string();
    } else if (verdict) {
      parts.what += "; " + verdict->doing;
    }
    return Error(parts);
  }

  const LaunchPlan& plan_;
  JobReport report_;
  std::vector<Rank> ranks_;
  std::vector<pollfd> polls_;
  std::vector<Failure> failures_;  ///< in the order seen; not of ranks that we took down
  TimeLimit next_step_{std::chrono::hours(1)};  ///< when to decide again, where nothing happens
  bool awaits_verdict_ = false;
  bool asked_to_stop_ = false;  ///< a signal was passed on
  bool interrupted_ = false;    ///< a rank stopped early, in order, or all were taken down for it
  bool died_of_stop_ = false;   ///< a rank was killed by the signal that was passed on
  bool going_down_ = false;
};

}  // namespace

void ignore_profile_signal() { std::signal(profile_signal, SIG_IGN); }

ExitCode launch(const LaunchPlan& plan) {
  if (plan.ranks < 1) {
    throw Error({.where = "--ranks",
                 .what = fmt::format("{} ranks cannot be started", plan.ranks),
                 .way_out = "give 1 or more"});
  }
  const SignalWatch signals;
  const TcpStoreServer store(ListeningSocket(ListeningSocket::Reach::loopback, 0));
  RunningJob job(plan, store.port());
  return job.watch(signals);
}

}  // namespace shardscope
