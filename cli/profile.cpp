// shardscope profile: a window of measured steps in a job that runs.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "backend/base/process_identity.h"
#include "backend/base/time_limit.h"
#include "backend/profile/job_notice.h"
#include "backend/profile/window_request.h"
#include "backend/train/stop_request.h"
#include "cli/output_options.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/native/most_profiled_steps.h"
#include "traces/run_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds between_looks{50};
constexpr std::chrono::seconds between_words{10};
constexpr int usual_steps = 5;
constexpr std::int64_t usual_timeout_s = 300;
constexpr std::int64_t longest_timeout_s = 86400;

struct ProfileCommand {
  std::optional<std::string> folder;
  std::optional<std::int64_t> steps, timeout_s;
  OutputOptions output;
};

/// None runs, or none any more.
Error no_job(const RunFolder& run) {
  if (!is_there(run.job())) {
    return Error({.where = run.root.string(),
                  .what = "is no run folder: there is no job.json in it",
                  .way_out = "give the folder that `shardscope train` said"});
  }
  const bool has_results = is_there(run.summary());
  return Error({.where = run.root.string(),
                .what = "no job runs there any more",
                .way_out = has_results
                               ? "its traces are in the folder; `shardscope compare` reads them"
                               : "it left no results; see its own messages",
                .code = ExitCode::no});
}

Error ended(const RunFolder& run, std::string_view before) {
  return Error({.where = run.root.string(),
                .what = fmt::format("the job ended before {}", before),
                .way_out = "see its own messages",
                .code = ExitCode::no});
}

Error not_reached(const RunFolder& run, const JobNotice& notice, SignalOutcome outcome) {
  if (outcome == SignalOutcome::gone)
    return notice.state == JobState::starting ? ended(run, "its first step") : no_job(run);
  const bool is_elsewhere = outcome == SignalOutcome::other_host;
  return Error({.where = run.root.string(),
                .what = is_elsewhere ? fmt::format("the job's rank 0 runs on {}", notice.host)
                                     : "the job belongs to another user",
                .way_out = is_elsewhere
                               ? "ask there (in its container), or send SIGUSR1 to any rank"
                               : "ask as the user who started it",
                .code = ExitCode::outside});
}

/// One request, from its file to the window's results.
class Request {
 public:
  Request(const ProfileCommand& options, int steps)
      : options_(options),
        run_{fs::absolute(*options.folder).lexically_normal()},
        steps_(steps),
        longest_wait_(options.timeout_s.value_or(usual_timeout_s)) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  /// Nobody is to follow what nobody waits for.
  ~Request() {
    try {
      if (asked_ && !window_) withdraw_request(run_.root, id_);
    } catch (const Error& error) {
      options_.output.note(error.what());
    }
  }

  ExitCode run() {
    const StopRequest stop;
    while (!stop.asked()) {
      if (!asked_)
        ask();
      else if (finished())
        return show(), ExitCode::done;
      std::this_thread::sleep_for(between_looks);
    }
    options_.output.note(window_ ? "the window goes on in the job" : "the request is withdrawn");
    return ExitCode::interrupted;
  }

 private:
  /// As soon as the job listens.
  void ask() {
    const std::optional<JobNotice> notice = read_notice(run_.root);
    if (!notice || notice->state == JobState::ended) throw no_job(run_);
    send(*notice, 0);
    if (notice->state == JobState::starting) return tell_of_start();
    asked_ = leave_request(run_.root, {.id = id_, .steps = steps_});
    process_ = notice->process;
    // Also for another's request: who left it may not have come to this.
    send(*notice, SIGUSR1);
    if (!asked_) {
      throw Error({.where = run_.root.string(),
                   .what = "another request waits for the job's next step",
                   .way_out = "ask again when it is done",
                   .code = ExitCode::no});
    }
    options_.output.note("asked; the window begins with the job's next step");
  }

  void send(const JobNotice& notice, int number) const {
    const SignalOutcome outcome = signal_process(notice.process, number);
    if (outcome != SignalOutcome::sent) throw not_reached(run_, notice, outcome);
  }

  void tell_of_start() {
    if (!next_word_.passed()) return;
    options_.output.note("the job is starting; waiting for its first step");
    next_word_ = TimeLimit(between_words);
  }

  /// Looks at what the job says. What it wrote before it ended is there once it has ended.
  bool finished() {
    const bool lives = signal_process(process_, 0) == SignalOutcome::sent;
    const std::optional<JobNotice> notice = read_notice(run_.root);
    const bool is_ours = notice && notice->process == process_;
    const WindowAnswer* answer = is_ours ? notice->answer_to(id_) : nullptr;
    if (answer && answer->state == WindowState::refused) throw refused(*answer);
    if (answer) note_window(*answer, notice->steps);
    if (window_ && is_there(results() / "comparison.json")) return true;
    if (answer && answer->state == WindowState::failed) throw without_results(answer->reason);
    if (answer && answer->state == WindowState::closed) limit_wait();
    if (lives && is_ours && notice->state != JobState::ended) return false;
    throw ended(run_, window_ ? "the window's results were there" : "it heard of the request");
  }

  void note_window(const WindowAnswer& answer, std::int64_t steps_of_run) {
    if (!window_) {
      options_.output.note(fmt::format("steps {}-{} of {} are profiled", answer.steps.first,
                                       answer.steps.last, steps_of_run));
    }
    window_ = answer.steps;
  }

  void limit_wait() {
    if (!results_limit_) results_limit_.emplace(longest_wait_);
    if (!results_limit_->passed()) return;
    throw without_results(fmt::format("they were not there {} s after the last step (--timeout)",
                                      longest_wait_.count()));
  }

  Error refused(const WindowAnswer& answer) const {
    return Error({.where = run_.root.string(),
                  .what = "no window: " + answer.reason,
                  .way_out = "ask again when another step can be profiled",
                  .code = ExitCode::no});
  }

  Error without_results(const std::string& reason) const {
    return Error({.where = run_.root.string(),
                  .what = fmt::format("steps {}-{} have no results: {}", window_->first,
                                      window_->last, reason),
                  .way_out = "traces that are there are in " + results().string(),
                  .code = ExitCode::outside});
  }

  fs::path results() const { return folder_of_window(run_.root, *window_); }

  void show() const {
    if (options_.output.json) return print(read_whole(results() / "comparison.json"));
    print(read_whole(results() / "comparison.txt") +
          fmt::format("\ntraces and comparison in {}\n", results().string()));
  }

  const ProfileCommand& options_;
  RunFolder run_;
  int steps_ = 0;
  std::chrono::seconds longest_wait_;
  std::string id_ = own_identity();
  std::string process_;  ///< whom we asked
  bool asked_ = false;
  TimeLimit next_word_{std::chrono::seconds(0)};
  std::optional<StepRange> window_;
  std::optional<TimeLimit> results_limit_;  ///< from the window's end on
};

void check(std::string_view option, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(
      {.where = std::string(option), .what = fmt::format("expected 1 to {}, got {}", most, value)});
}

ExitCode run_profile(const ProfileCommand& options) {
  if (!options.folder) {
    throw Error({.where = "RUN",
                 .what = "no run folder was given",
                 .way_out = "give the folder of a job that runs"});
  }
  const std::int64_t steps = options.steps.value_or(usual_steps);
  check("--steps", steps, most_profiled_steps);
  check("--timeout", options.timeout_s.value_or(usual_timeout_s), longest_timeout_s);
  return Request(options, static_cast<int>(steps)).run();
}

}  // namespace

void declare_profile(Command& command) {
  const auto options = std::make_shared<ProfileCommand>();
  command.positional("RUN", options->folder, "run folder of the running job");
  command.heading("Window");
  command.option("--steps", options->steps, {"N", "steps to measure (default: 5)"});
  command.option(
      "--timeout", options->timeout_s,
      {"S", "longest wait for the results after the last step, in seconds (default: 300)"});
  declare_output_options(command, options->output);
  command.examples({{"shardscope profile runs/full_shard",
                     "measures the next five steps, operation by operation, and compares them with "
                     "the prediction"},
                    {"kill -USR1 PID", "the same with a signal to the launcher or to any rank"}});
  command.action([options] { return run_profile(*options); });
}

}  // namespace shardscope
