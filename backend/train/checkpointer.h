// Saves a run while it trains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"
#include "backend/comm/communicator.h"
#include "backend/rendezvous/tcp_store.h"
#include "backend/train/staged_state.h"
#include "backend/train/trainer.h"
#include "backend/watch/job_session.h"
#include "core/native/job.h"

namespace shardscope {

/// A save copies the state in memory between two steps; a thread beside the training writes it. The
/// next save waits for the one before. A save that fails is reported and does not end the run: the
/// older checkpoints stay.
class Checkpointer {
 public:
  /// Collective. All must outlive it; `session` is null where there is one rank.
  Checkpointer(const Job& job, Trainer& trainer, Communicator& world, const JobSession* session);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  /// Waits for the save in hand.
  ~Checkpointer();

  /// Between steps, on all ranks alike: saves where the job wants it after this step. A run that
  /// ends is saved in any case, so that it can go on.
  void after_step(bool run_ends);
  /// Returns once the save in hand is on the disk, or has failed.
  void finish();

  /// What went wrong since the last call, one line each; empty: nothing.
  std::string take_news() { return std::exchange(news_, {}); }
  /// What saving took of this rank, in one line; empty: nothing was saved.
  std::string cost_text() const;
  /// Throws Error (ExitCode::outside) where the run's last save failed.
  void require_saved() const;

 private:
  void save();
  void write_timed(const TrainingProgress& progress);
  void write(const TrainingProgress& progress);
  void tell_failure(std::int64_t step, const std::string& what);
  std::optional<std::string> failure_of_others(std::int64_t step);
  TcpStore& store();
  void commit(const std::filesystem::path& partial, const TrainingProgress& progress,
              std::vector<StoredFile> files) const;
  CheckpointLayout layout() const;
  bool writes() const;

  const Job& job_;
  Trainer& trainer_;
  Communicator& world_;
  const JobSession* session_;
  std::optional<TcpStore> store_;  ///< of the thread that writes
  std::filesystem::path checkpoints_;
  std::string attempt_;  ///< the same on all ranks, another in each run
  std::string config_;   ///< text of the model's config.json
  StagedState staged_;
  std::future<void> writing_;
  std::int64_t saving_step_ = 0;
  std::string news_;
  /// Of the saves that are on the disk.
  struct Cost {
    int saves = 0;
    std::int64_t bytes = 0;  ///< that this rank copied
    double stalled_s = 0;    ///< training waited: for the copy, and for the save before
    double written_s = 0;    ///< beside the training
    double processor_s = 0;  ///< of the thread that writes
  };
  Cost cost_;
  std::string last_failure_;  ///< empty: the last save is on the disk
  /// The step whose save a test lets this rank fail.
  std::optional<std::int64_t> failing_save_;
};

/// Where a run goes on.
struct ResumeChoice {
  bool newest = false;               ///< the newest whole one of the run folder, if there is one
  std::filesystem::path checkpoint;  ///< else this one; empty: none
  bool may_start_anew = false;       ///< where there is none
  /// Global token offset at which the data goes on, where another library saved the checkpoint;
  /// none: behind as many steps of this job as it has done.
  std::optional<std::int64_t> next_token = {};
  /// Checkpoints that `newest` passes over: reading them showed that they are damaged.
  std::vector<std::filesystem::path> damaged = {};
};
/// What a job of `world` ranks would go on from, ours or another library's; null: nothing, and that
/// is allowed. `passed_over` gets a line for each newer one that is not whole. Throws Error.
std::shared_ptr<Checkpoint> checkpoint_to_resume(const ResumeChoice& choice, const Job& job,
                                                 int world, std::vector<std::string>& passed_over);
/// Collective: rank 0 chooses, all open the same, ours or another library's. Null: there is none,
/// and that is allowed. Throws Error.
std::shared_ptr<Checkpoint> open_checkpoint(const ResumeChoice& choice, const Job& job,
                                            Communicator& world);

}  // namespace shardscope
