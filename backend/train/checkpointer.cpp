#include "backend/train/checkpointer.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "backend/checkpoint/checkpoint_folder.h"
#include "backend/checkpoint/checkpoint_reader.h"
#include "backend/checkpoint/checkpoint_writer.h"
#include "backend/checkpoint/foreign_reader.h"
#include "backend/comm/shared_text.h"
#include "backend/train/fault_injector.h"
#include "backend/train/required_run_folder.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/model/huggingface.h"
#include "core/native/resolved_strategy.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Processor time of this thread.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  constexpr double nano = 1e-9;
  return static_cast<double>(time.tv_sec) + nano * static_cast<double>(time.tv_nsec);
}

/// The thread that writes gives way to those that train.
void be_nice() {
  constexpr int niceness = 10;
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, thread, niceness);
}

std::string new_attempt() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}-{}", ::getpid(),
                     std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

Error injected_failure(const fs::path& partial) {
  return Error({.where = partial.string(),
                .what = fmt::format("cannot be written: {} asks for that", fault_variable),
                .way_out = {},
                .code = ExitCode::outside});
}

std::string failure_key(std::int64_t step) { return fmt::format("checkpoint_failed/{}", step); }

fs::path chosen_folder(const ResumeChoice& choice, const Job& job,
                       std::vector<std::string>& passed_over) {
  const fs::path checkpoints = checkpoints_of(job.output);
  if (choice.newest) {
    const auto newest = newest_whole(checkpoints, passed_over, choice.damaged);
    if (newest) return newest->folder;
  }
  if (!choice.checkpoint.empty()) {
    if (is_there(choice.checkpoint / checkpoint_index_name)) return choice.checkpoint;
    if (is_foreign_checkpoint(choice.checkpoint)) return choice.checkpoint;
    throw Error(
        {.where = choice.checkpoint.string(),
         .what = fmt::format("is no checkpoint: it has no {}, and is no folder of PyTorch's, "
                             "accelerate's or DeepSpeed's",
                             checkpoint_index_name),
         .way_out = "give a folder like RUN/checkpoints/step-00000050"});
  }
  if (choice.may_start_anew) return {};
  throw Error({.where = checkpoints.string(),
               .what = "there is no whole checkpoint to go on from",
               .way_out = "give one with --resume CHECKPOINT, or start without --resume; the job's "
                          "key checkpoint.every makes a run leave checkpoints"});
}

}  // namespace

Checkpointer::Checkpointer(const Job& job, Trainer& trainer, Communicator& world,
                           const JobSession* session)
    : job_(job),
      trainer_(trainer),
      world_(world),
      session_(session),
      checkpoints_(checkpoints_of(job.output)),
      attempt_(new_attempt()),
      failing_save_(failing_save_of(process_variables(), world.rank())) {
  if (job.checkpoint.every == 0) return;
  attempt_ = shared_text(attempt_, 0, world);
  if (world.rank() == 0) config_ = read_whole(config_path(job.model));
}

Checkpointer::~Checkpointer() {
  if (writing_.valid()) writing_.wait();
}

void Checkpointer::after_step(bool run_ends) {
  if (job_.checkpoint.every == 0) return;
  if (run_ends || trainer_.steps_done() % job_.checkpoint.every == 0) save();
}

bool Checkpointer::writes() const {
  return job_.checkpoint.kind != CheckpointKind::full || world_.rank() == 0;
}

void Checkpointer::save() {
  const auto begin = Clock::now();
  finish();
  staged_.stage(job_.checkpoint.kind, trainer_, world_);
  cost_.stalled_s += seconds_since(begin);
  if (!writes()) return;
  saving_step_ = trainer_.steps_done();
  writing_ = std::async(std::launch::async, [this, progress = trainer_.progress()] {
    be_nice();
    write_timed(progress);
  });
}

void Checkpointer::write_timed(const TrainingProgress& progress) {
  const auto begin = Clock::now();
  const double processor_begin = thread_seconds();
  write(progress);
  cost_.written_s += seconds_since(begin);
  cost_.processor_s += thread_seconds() - processor_begin;
  cost_.bytes += staged_.bytes();
  ++cost_.saves;
}

std::string Checkpointer::cost_text() const {
  if (cost_.saves == 0) return {};
  constexpr double megabyte = 1e6;
  return fmt::format(
      "{} checkpoints saved: training waited {:.3f} s for them in all, {:.0f} MB of rank {} were "
      "written beside it at {:.0f} MB/s, with {:.3f} s of processor time",
      cost_.saves, cost_.stalled_s, static_cast<double>(cost_.bytes) / megabyte, world_.rank(),
      static_cast<double>(cost_.bytes) / megabyte / cost_.written_s, cost_.processor_s);
}

void Checkpointer::finish() {
  if (!writing_.valid()) return;
  try {
    writing_.get();
    last_failure_.clear();
  } catch (const std::exception& error) {
    last_failure_ =
        fmt::format("the checkpoint of step {} was not saved: {}", saving_step_, error.what());
    news_ += last_failure_ + "\n";
  }
}

void Checkpointer::require_saved() const {
  if (last_failure_.empty()) return;
  throw Error({.where = checkpoints_.string(),
               .what = last_failure_,
               .way_out = {},
               .code = ExitCode::outside});
}

/// Beside the training: nothing of trainer or communicator is touched but what never changes.
void Checkpointer::write(const TrainingProgress& progress) {
  const int rank = world_.rank(), world = world_.size();
  const fs::path partial = checkpoints_ / partial_name(progress.step, attempt_);
  try {
    require_run_folder(job_.output);
    create_folder(partial);
    if (progress.step == failing_save_) throw injected_failure(partial);
    if (job_.checkpoint.kind == CheckpointKind::full) {
      const JsonValue config =
          JsonValue::parse(config_, config_path(job_.model).string(), DuplicateKeys::last_wins);
      return commit(partial, progress,
                    write_whole_states(partial, trainer_.model(), config, staged_.whole_states()));
    }
    write_shard_file(partial, shard_file_name(rank, world), staged_.tensors());
    if (rank != 0) return;
    const auto half_timeout =
        std::chrono::milliseconds(static_cast<std::int64_t>(job_.timeout_s * 500));
    std::vector<StoredFile> files = wait_for_shard_files(
        partial, world, half_timeout, [&] { return failure_of_others(progress.step); });
    write_atomically(partial / "config.json", config_);
    commit(partial, progress, std::move(files));
  } catch (const std::exception& error) {
    if (rank != 0) tell_failure(progress.step, error.what());
    std::error_code ignored;
    if (rank == 0) fs::remove_all(partial, ignored);
    throw;
  }
}

/// Not through the disk, which may be what failed.
void Checkpointer::tell_failure(std::int64_t step, const std::string& what) {
  try {
    if (session_) store().set(failure_key(step), fmt::format("rank {}: {}", world_.rank(), what));
  } catch (const Error&) {
    // Then rank 0 waits until its time is over.
  }
}

std::optional<std::string> Checkpointer::failure_of_others(std::int64_t step) {
  if (!session_) return std::nullopt;
  return store().peek(failure_key(step));
}

TcpStore& Checkpointer::store() {
  constexpr std::chrono::seconds deadline{10};
  if (!store_) store_.emplace(session_->meeting.connect(deadline));
  return *store_;
}

void Checkpointer::commit(const fs::path& partial, const TrainingProgress& progress,
                          std::vector<StoredFile> files) const {
  const CheckpointIndex index{.kind = job_.checkpoint.kind,
                              .progress = progress,
                              .layout = layout(),
                              .job = to_json(job_),
                              .files = std::move(files)};
  write_atomically(partial / checkpoint_index_name, to_json(index));
  put_in_place(partial, checkpoints_ / checkpoint_name(progress.step));
  remove_old(checkpoints_, job_.checkpoint);
}

CheckpointLayout Checkpointer::layout() const {
  const Strategy& strategy = trainer_.schedule().strategy;
  return {.world = world_.size(),
          .strategy = std::string(name_of(strategy.sharding)),
          .mesh = text_of(strategy.mesh),
          .wrap = text_of(strategy.wrap),
          .precision = std::string(name_of(strategy.precision))};
}

namespace {

/// Tokens of one step, over all ranks.
std::int64_t tokens_of_step(const Job& job, int world) {
  const Mesh mesh = resolved(job.strategy, world, "strategy").mesh;
  return job.batch * job.seq * job.accumulate * mesh.replicate * mesh.shard;
}

std::shared_ptr<Checkpoint> resumed_foreign(const fs::path& folder, const ResumeChoice& choice,
                                            const Job& job, int world) {
  ForeignCheckpoint opened = open_foreign(folder);
  std::int64_t usual = 0;
  const bool is_too_far =
      __builtin_mul_overflow(step_of(opened), tokens_of_step(job, world), &usual) ||
      __builtin_add_overflow(usual, job.token_start, &usual);
  if (is_too_far && !choice.next_token)
    throw Error({.where = folder.string(),
                 .what = fmt::format("counts {} steps, which are too many for this job's tokens",
                                     step_of(opened)),
                 .way_out = "give --next-token"});
  return std::make_shared<ForeignReader>(
      std::move(opened), ForeignModel{.config = config_path(job.model),
                                      .next_token = choice.next_token.value_or(usual)});
}

std::shared_ptr<Checkpoint> opened(const fs::path& folder, const ResumeChoice& choice,
                                   const Job& job, int world) {
  if (folder.empty()) return nullptr;
  if (!is_there(folder / checkpoint_index_name)) return resumed_foreign(folder, choice, job, world);
  return std::make_shared<CheckpointReader>(folder);
}

}  // namespace

std::shared_ptr<Checkpoint> checkpoint_to_resume(const ResumeChoice& choice, const Job& job,
                                                 int world, std::vector<std::string>& passed_over) {
  return opened(chosen_folder(choice, job, passed_over), choice, job, world);
}

std::shared_ptr<Checkpoint> open_checkpoint(const ResumeChoice& choice, const Job& job,
                                            Communicator& world) {
  std::string chosen;
  if (world.rank() == 0) {
    std::vector<std::string> passed_over;
    chosen = chosen_folder(choice, job, passed_over).string();
    for (const std::string& line : passed_over) fmt::print(stderr, "{}\n", line);
  }
  return opened(shared_text(chosen, 0, world), choice, job, world.size());
}

}  // namespace shardscope
