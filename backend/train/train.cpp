#include "backend/train/train.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/base/core_binding.h"
#include "backend/checkpoint/checkpoint_folder.h"
#include "backend/comm/nccl/settings.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "backend/executor/memory_marks.h"
#include "backend/executor/profiled_trace.h"
#include "backend/job/gpu_place.h"
#include "backend/job/join_job.h"
#include "backend/job/make_communicator.h"
#include "backend/profile/instruments.h"
#include "backend/profile/listeners.h"
#include "backend/profile/nccl_profile.h"
#include "backend/profile/profile_signal.h"
#include "backend/profile/profiler.h"
#include "backend/train/fault_injector.h"
#include "backend/train/line_file.h"
#include "backend/train/progress.h"
#include "backend/train/required_run_folder.h"
#include "backend/train/same_job.h"
#include "backend/train/save_model.h"
#include "backend/train/stop_request.h"
#include "backend/train/trainer.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/schedule/model_flops.h"
#include "traces/chrome_writer.h"
#include "traces/run_folder.h"
#include "traces/summary.h"

namespace shardscope {
namespace {

int kernel_threads(const Job& job, const Environment& environment) {
  return job.threads > 0 ? job.threads : std::max(1, cores_at_start() / environment.local_world);
}

std::unique_ptr<Device> make_gpu(const Job& job, const Environment& environment,
                                 JobSession* session) {
  const int gpu = gpu_index(environment, cuda_device_count());
  const bool is_shared =
      session && share_gpus(session->meeting.store(), environment.world, gpu_identity(gpu));
  if (is_shared && environment.rank == 0) fmt::print(stderr, "{}\n", shared_gpu_warning);
  // Before NCCL is loaded, which reads them.
  set_missing(nccl_defaults({.rank = environment.rank,
                             .shares_gpu = is_shared,
                             .on_one_host = environment.on_one_host(),
                             .deterministic = job.deterministic}));
  return make_cuda_device({.index = gpu, .host_threads = kernel_threads(job, environment)});
}

std::unique_ptr<Device> make_device(const Job& job, const Environment& environment,
                                    JobSession* session) {
  if (job.device == "cuda") return make_gpu(job, environment, session);
  const int threads = kernel_threads(job, environment);
  bind_to_cores(
      {.rank = environment.local_rank, .ranks = environment.local_world, .threads = threads});
  return make_cpu_device({.threads = threads});
}

/// Longest wait for a peer.
std::chrono::milliseconds deadline_of(const Job& job) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(job.timeout_s * 1e3));
}

std::vector<MemoryMark> first_mark(Device& device) {
  std::vector<MemoryMark> marks;
  note(marks, "context, and other processes", device.memory());
  return marks;
}

/// The lines of metrics.jsonl up to `step`, whole ones only.
std::string metrics_until(const std::filesystem::path& path, std::int64_t step) {
  if (!is_there(path)) return {};
  const std::string text = read_whole(path);
  std::string kept;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line(text.data() + begin, end - begin);
    if (JsonValue::parse(line, path.string()).at("step").integer() > step) break;
    kept += fmt::format("{}\n", line);
  }
  return kept;
}

LineFile metrics_file(const std::filesystem::path& path, const Checkpoint* resumed_from) {
  if (!resumed_from) return LineFile(path);
  write_atomically(path, metrics_until(path, resumed_from->index().progress.step));
  return LineFile(path, LineFile::Existing::continued);
}

/// What rank 0 leaves in the run folder before the first step. Its job needs no file outside of the
/// folder to be predicted again, and to be trained again no more than the data, and the weights
/// that it began with.
LineFile start_run_folder(const Job& job, const Checkpoint* resumed_from) {
  const RunFolder folder{job.output};
  Job left = job;
  const std::filesystem::path config = config_path(job.model);
  if (config.extension() == ".json" && is_there(config)) {
    write_atomically(folder.config(), read_whole(config));
    if (job.weights != StartWeights::pretrained) left.model = folder.config();
  }
  write_atomically(folder.job(), to_json(left, folder.root));
  return metrics_file(folder.metrics(), resumed_from);
}

RunFacts facts_of(Trainer& trainer, const Communicator& world, const TrainOptions& options) {
  const Schedule& schedule = trainer.schedule();
  const MemoryFacts memory = trainer.executor().memory();
  RunFacts facts;
  facts.strategy = name_of(schedule.strategy.sharding);
  facts.precision = name_of(schedule.strategy.precision);
  facts.assumed = options.assumed;
  facts.assumed.insert(facts.assumed.end(), schedule.assumed.begin(), schedule.assumed.end());
  if (world.size() > 1) facts.assumed.push_back("communicator " + world.description());
  facts.tokens_per_step = trainer.tokens_per_step();
  facts.model_flops = model_flops(schedule);
  facts.mfu_formula = mfu_formula;
  facts.peak = options.peak;
  facts.device_memory = options.device_memory;
  facts.arena = memory.arena;
  facts.outside = memory.outside;
  facts.pss = memory.pss_after - memory.pss_before;
  return facts;
}

void report_memory(Trainer& trainer, int rank) {
  const MemoryFacts memory = trainer.executor().memory();
  fmt::print(
      stderr,
      "rank {}: arena {} B, outside {} B, proportional set size {} B before and {} B after\n", rank,
      memory.arena.count, memory.outside.count, memory.pss_before.count, memory.pss_after.count);
  const AllocationCounts allocations = trainer.executor().allocations();
  fmt::print(stderr, "rank {}: inside steps {} allocations of ours, {} of libraries ({} B)\n", rank,
             allocations.ours, allocations.library, allocations.library_bytes);
}

std::string without_last_line_end(std::string text) {
  if (!text.empty()) text.pop_back();
  return text;
}

/// One run of `train`, after its parts have been made.
class Run {
 public:
  Run(const Job& job, const Environment& environment, const TrainOptions& options,
      ProfileSignal& profile_signal, std::shared_ptr<JobSession> session)
      : job_(job),
        environment_(environment),
        profile_signal_(profile_signal),
        session_(session),
        device_(make_device(job, environment, session.get())),
        marks_(first_mark(*device_)),
        world_(make_communicator(job.communicator, environment, std::move(session), device_.get())),
        leads_(environment.rank == 0),
        options_(options),
        progress_(job.steps, options.quiet || !leads_) {
    if (leads_) remove_partial(checkpoints_of(job.output));
    require_same_job(job, *world_);
    note(marks_, fmt::format("communicator ({})", world_->description()), device_->memory());
    make_trainer();
    for (const std::string& chosen : trainer_->schedule().assumed)
      if (leads_ && !options_.quiet) fmt::print(stderr, "{}\n", chosen);
    checkpointer_.emplace(job, *trainer_, *world_, session_.get());
    listeners_ = make_listeners(trainer_->schedule());
    if (auto fault = fault_injector_of(process_variables(), environment.rank, trainer_->executor()))
      listeners_.push_back(std::move(fault));
    trainer_->executor().set_probes(probes_of(listeners_));
    start_profiler();
    for (const std::string& note : trainer_->tokens().notes()) {
      if (leads_) fmt::print(stderr, "{}\n", note);
    }
  }

  ExitCode steps() {
    bool stop = false;
    while (trainer_->steps_done() < job_.steps && !stop) {
      const Trainer::StepResult result = run_step();
      stop = result.requests.stop;
      progress_.show(result.metrics);
      if (metrics_) metrics_->append(to_json(result.metrics));
      checkpointer_->after_step(stop || trainer_->steps_done() == job_.steps);
      tell_news();
    }
    checkpointer_->finish();
    profiler_->finish();
    progress_.finish();
    tell_news();
    if (leads_ && !options_.quiet) tell(checkpointer_->cost_text());
    return stop ? ExitCode::interrupted : ExitCode::done;
  }

  void leave_results() {
    if (saw_folder_) require_run_folder(job_.output);
    if (ran_steps_)
      leave_trace();
    else
      leave_model();
    // Nobody leaves while a peer may still read its memory.
    trainer_->executor().between_steps([&] { world_->barrier(); });
  }

  /// Rank 0 knows of every part that was not saved.
  void require_saved() const {
    if (leads_) checkpointer_->require_saved();
  }

 private:
  void make_trainer() {
    std::optional<ResumeChoice> choice = options_.resume;
    std::shared_ptr<Checkpoint> checkpoint = begun_from(choice);
    // Where the newest was asked for, and reading shows that it is damaged, the one before is next.
    const auto next = [&](const DamagedCheckpoint& damage) {
      std::error_code ignored;
      const bool is_given =
          std::filesystem::equivalent(checkpoint->folder(), choice->checkpoint, ignored);
      if (!choice->newest || is_given) throw damage;
      const Error::Parts& said = damage.parts();
      if (leads_) fmt::print(stderr, "{} is passed over: {}\n", said.where, said.what);
      choice->damaged.push_back(checkpoint->folder());
      return checkpoint = begun_from(choice);
    };
    try {
      trainer_.emplace(job_, *world_, *device_, checkpoint, next);
    } catch (const Error& error) {
      // What is refused leaves no trace. After another failure a restart finds the same newest
      // checkpoint, since the others are renamed.
      if (error.code() == ExitCode::bad_input)
        put_back(set_aside_);
      else
        tell_set_aside();
      throw;
    }
    begin_run_folder(checkpoint.get());
    if (leads_ && checkpoint) tell_resumed(*checkpoint);
  }

  /// Where the run begins: the chosen checkpoint, or null.
  std::shared_ptr<Checkpoint> begun_from(const std::optional<ResumeChoice>& choice) {
    std::shared_ptr<Checkpoint> checkpoint;
    if (choice) checkpoint = open_checkpoint(*choice, job_, *world_);
    if (!checkpoint) require_same_weights(job_, *world_);
    if (leads_ && choice) set_aside_others(checkpoint.get());
    return checkpoint;
  }

  /// What this run does not follow. Else a restart would go on from there, and new checkpoints
  /// would be removed as older than those. Before the checkpoint is loaded: a rank may be lost
  /// then.
  void set_aside_others(const Checkpoint* followed) {
    const std::filesystem::path checkpoints = checkpoints_of(job_.output);
    followed_step_.reset();
    if (followed) followed_step_ = step_among(checkpoints, followed->folder());
    std::ranges::move(set_aside_later(checkpoints, followed_step_.value_or(-1)),
                      std::back_inserter(set_aside_));
  }

  void tell_set_aside() const {
    const std::string which = followed_step_ ? fmt::format("newer than step {}", *followed_step_)
                                             : "that this run does not follow";
    for (const SetAside& one : set_aside_)
      fmt::print(stderr, "a checkpoint {} is renamed: {}\n", which, one.to.string());
  }

  /// Once nothing is refused any more.
  void begin_run_folder(const Checkpoint* checkpoint) {
    tell_set_aside();
    if (leads_) metrics_.emplace(start_run_folder(job_, checkpoint));
    trainer_->executor().between_steps([&] { world_->barrier(); });
    saw_folder_ = is_there(RunFolder{job_.output}.job());
  }

  void leave_trace() {
    if (job_.check && !options_.quiet) report_memory(*trainer_, environment_.rank);
    const RunFacts facts = facts_of(*trainer_, *world_, options_);
    leave_model();
    Trace trace = profiled_trace(trainer_->executor(), device_name(), environment_.local_rank);
    profiler_->set_clock(trace, trainer_->executor().recorder().base_monotonic_ns());
    add_nccl_choices(trace);
    write_chrome_trace(trace, job_.output / fmt::format("trace.{}.json.gz", environment_.rank));
    if (leads_) write_summary(summarize(trace, facts), "train", job_.output / "summary.json");
  }

  void leave_model() {
    if (job_.save_model) save_model(job_.output / "model", job_.model, *trainer_, *world_);
  }

  void tell_resumed(const Checkpoint& checkpoint) {
    const TrainingProgress& from = checkpoint.index().progress;
    if (!options_.quiet)
      fmt::print(stderr, "resumes after step {} of {}, read in {:.3f} s\n", from.step,
                 checkpoint.folder().string(), trainer_->loading_s());
    if (from.data_tokens == 0 && !options_.quiet)
      fmt::print(stderr, "the place in the data is not saved: it is taken to be token {}\n",
                 from.next_token);
    if (from.data_tokens != 0 && from.data_tokens != trainer_->tokens().size())
      fmt::print(stderr, "the data has {} tokens and had {}: other batches follow\n",
                 trainer_->tokens().size(), from.data_tokens);
  }

  std::string device_name() const { return job_.device + ": " + device_->description(); }

  void start_profiler() {
    Executor& executor = trainer_->executor();
    profiler_.emplace(ProfilerPlace{.job = job_,
                                    .environment = environment_,
                                    .executor = executor,
                                    .signal = profile_signal_,
                                    .session = session_.get(),
                                    .deadline = deadline_of(job_),
                                    .longest_stall = options_.longest_stall,
                                    .device = device_name(),
                                    .tells_results = !options_.results_in_files});
    auto instruments =
        make_instruments({.executor = executor,
                          .world = *world_,
                          .marks = marks_,
                          .records = job_.profile_records,
                          .kernel_threads = kernel_threads(job_, environment_),
                          .clock_offset = [this] { return profiler_->clock().offset_ns; }});
    for (auto& instrument : instruments) profiler_->add(std::move(instrument));
  }

  Trainer::StepResult run_step() {
    StopRequests requests{.stop = stop_request_.asked()};
    profiler_->add_request(requests);
    ran_steps_ = true;
    const bool timed = profiler_->before_step(trainer_->steps_done() + 1);
    const Trainer::StepResult result = trainer_->run_step(requests, timed);
    profiler_->after_step(trainer_->steps_done(), result.requests);
    return result;
  }

  void tell_news() {
    warn(without_last_line_end(checkpointer_->take_news()));
    // All ranks saw the same.
    const std::string seen = without_last_line_end(trainer_->take_news());
    if (leads_) warn(seen);
    tell(profiler_->take_news());
  }

  /// Also of a quiet run.
  void warn(const std::string& news) {
    if (!news.empty() && leads_ && options_.quiet) fmt::print(stderr, "{}\n", news);
    tell(news);
  }

  void tell(const std::string& news) {
    if (news.empty()) return;
    if (leads_) return progress_.say(news);
    fmt::print(stderr, "{}\n", news);  // into the rank's log
  }

  const Job& job_;
  const Environment& environment_;
  ProfileSignal& profile_signal_;
  std::shared_ptr<JobSession> session_;
  StopRequest stop_request_;
  std::unique_ptr<Device> device_;
  std::vector<MemoryMark> marks_;  ///< of what is made before the executor
  std::unique_ptr<Communicator> world_;
  bool leads_ = false;
  const TrainOptions& options_;
  Progress progress_;
  std::optional<LineFile> metrics_;
  // The executor's own thread may tell them of operations until the trainer is gone.
  std::vector<std::unique_ptr<Probe>> listeners_;
  std::optional<Profiler> profiler_;
  std::optional<Trainer> trainer_;
  std::optional<Checkpointer> checkpointer_;
  std::vector<SetAside> set_aside_;            ///< by rank 0
  std::optional<std::int64_t> followed_step_;  ///< of its own checkpoints; none: another's, or none
  bool ran_steps_ = false;
  /// Another host may have a folder of its own, where a run without checkpoints leaves its traces.
  bool saw_folder_ = false;
};

}  // namespace

ExitCode train(const Job& job, const Environment& environment, const TrainOptions& options) {
  create_folder(job.output);
  // Before the ranks meet, so that all of them listen once rank 0 says that the job runs.
  ProfileSignal profile_signal;
  const std::shared_ptr<JobSession> session = join_job(environment, deadline_of(job), job.output);
  return run_as_rank(session.get(), [&] {
    Run run(job, environment, options, profile_signal, session);
    const ExitCode code = run.steps();
    run.leave_results();
    run.require_saved();
    return code;
  });
}

}  // namespace shardscope
