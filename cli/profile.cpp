// shardscope profile: a window of measured steps in a job that runs.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "backend/profile/job_notice.h"
#include "backend/train/rank_wishes.h"
#include "backend/train/stop_request.h"
#include "backend/watch/process_identity.h"
#include "cli/output_options.h"
#include "cli/run_folder.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds between_looks{50};
constexpr int usual_steps = 5;

struct ProfileCommand {
  std::optional<std::string> folder;
  std::optional<std::int64_t> steps;
  OutputOptions output;
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Error no_job(const RunFolder& run) {
  const bool was_run = is_there(run.job());
  return Error({.where = run.root.string(),
                .what = was_run ? "no job runs there any more"
                                : "is no run folder: there is no job.json in it",
                .way_out = was_run ? "its traces are in the folder; `shardscope compare` reads them"
                                   : "give the folder that `shardscope train` said",
                .code = was_run ? ExitCode::no : ExitCode::bad_input});
}

Error not_reached(const RunFolder& run, const JobNotice& notice, SignalOutcome outcome) {
  if (outcome == SignalOutcome::gone) return no_job(run);
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
      : options_(options), run_{fs::absolute(*options.folder).lexically_normal()}, steps_(steps) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  /// Nobody is to follow what nobody waits for.
  ~Request() {
    if (asked_ && !window_) take_request(run_.root);
  }

  ExitCode run() {
    const StopRequest stop;
    ask();
    while (!stop.asked()) {
      if (finished()) return show(), ExitCode::done;
      std::this_thread::sleep_for(between_looks);
    }
    options_.output.note(window_ ? "the window goes on in the job" : "the request is withdrawn");
    return ExitCode::interrupted;
  }

 private:
  void ask() {
    const std::optional<JobNotice> notice = read_notice(run_.root);
    if (!notice) throw no_job(run_);
    const SignalOutcome there = signal_process(notice->process, 0);
    if (there != SignalOutcome::sent) throw not_reached(run_, *notice, there);
    if (!leave_request(run_.root, {.id = id_, .steps = steps_})) {
      throw Error({.where = run_.root.string(),
                   .what = "another request waits for the job's next step",
                   .way_out = "ask again when it is done",
                   .code = ExitCode::no});
    }
    asked_ = true;
    options_.output.note("asked; the window begins with the job's next step");
    const SignalOutcome sent = signal_process(notice->process, SIGUSR1);
    if (sent != SignalOutcome::sent) throw not_reached(run_, *notice, sent);
  }

  /// Looks at what the job says.
  bool finished() {
    const std::optional<JobNotice> notice = read_notice(run_.root);
    if (notice) listen(*notice);
    if (window_ && is_there(results() / "comparison.json")) return true;
    if (notice && signal_process(notice->process, 0) == SignalOutcome::sent) return false;
    throw Error({.where = run_.root.string(),
                 .what = window_ ? "the job ended before the window's results were there"
                                 : "the job ended before it heard of the request",
                 .way_out = "see its own messages",
                 .code = ExitCode::no});
  }

  void listen(const JobNotice& notice) {
    if (notice.refused == id_) {
      throw Error({.where = run_.root.string(),
                   .what = "the job profiles other steps now, or was at its last one",
                   .way_out = "ask again when they are done",
                   .code = ExitCode::no});
    }
    if (!notice.window || notice.window->request != id_) return;
    if (!window_) {
      options_.output.note(fmt::format("steps {}-{} of {} are profiled", notice.window->steps.first,
                                       notice.window->steps.last, notice.steps));
    }
    window_ = notice.window->steps;
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
  std::string id_ = own_identity();
  bool asked_ = false;
  std::optional<StepRange> window_;
};

ExitCode run_profile(const ProfileCommand& options) {
  if (!options.folder) {
    throw Error({.where = "RUN",
                 .what = "no run folder was given",
                 .way_out = "give the folder of a job that runs"});
  }
  const std::int64_t steps = options.steps.value_or(usual_steps);
  if (steps < 1 || steps > most_window_steps) {
    throw Error({.where = "--steps",
                 .what = fmt::format("expected 1 to {}, got {}", most_window_steps, steps)});
  }
  return Request(options, static_cast<int>(steps)).run();
}

}  // namespace

void declare_profile(Command& command) {
  const auto options = std::make_shared<ProfileCommand>();
  command.positional("RUN", options->folder, "run folder of a job that runs");
  command.heading("Window");
  command.option("--steps", options->steps, {"N", "steps that are measured; 5 unless given"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope profile runs/full_shard",
        "the next five steps of the job, measured operation by operation and laid beside the "
        "prediction"},
       {"kill -USR1 PID", "the same by a signal to the launcher or to any rank"}});
  command.action([options] { return run_profile(*options); });
}

}  // namespace shardscope
