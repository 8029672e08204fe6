// One rank's training: model, schedule, executor and data held together, a step at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/checkpoint/checkpoint.h"
#include "backend/comm/communicator.h"
#include "backend/data/token_batch.h"
#include "backend/data/token_stream.h"
#include "backend/device/device.h"
#include "backend/executor/executor.h"
#include "backend/executor/stop_requests.h"
#include "backend/train/step_metrics.h"
#include "core/model/model.h"
#include "core/model/model_folder.h"
#include "core/native/job.h"
#include "core/native/units.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Collective: the checkpoint to take in place of a damaged one; null: the start weights.
using NextCheckpoint = std::function<std::shared_ptr<Checkpoint>(const DamagedCheckpoint&)>;

class Trainer {
 public:
  /// Collective over `world`; each rank gives the same job. Reads model and data, lays out memory,
  /// loads or draws the start weights. `job`, `world` and `device` must outlive the trainer. Throws
  /// Error for whatever the job gets wrong. With `resume_from`, goes on from that checkpoint,
  /// whatever its layout: model, optimizer, schedule of the learning rate and data continue. Where
  /// a rank reads something damaged, all ranks ask `next` what to go on from; without it they throw
  /// DamagedCheckpoint.
  Trainer(const Job& job, Communicator& world, Device& device,
          std::shared_ptr<Checkpoint> resume_from = nullptr, const NextCheckpoint& next = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  struct StepResult {
    StepMetrics metrics;
    StopRequests requests;  ///< of any rank; the same on all
  };
  /// Runs the next step, timed operation by operation where asked for, and else where the run's
  /// trace is to have it; `requests` are this rank's. Where loss or norm is not finite, the step
  /// changes nothing, and the job's policy decides: Error (ExitCode::not_finite), or on.
  StepResult run_step(const StopRequests& requests = {}, bool timed = false);

  const Model& model() const { return model_; }
  const ParameterSource& start_weights() const { return start_weights_; }
  const Schedule& schedule() const { return schedule_; }
  /// The units of every rank of the pipeline.
  std::vector<UnitPlan> unit_plans() const;
  Executor& executor() { return executor_; }
  const TokenStream& tokens() const { return tokens_; }
  /// What was seen of steps that are not finite since the last call; empty: nothing.
  std::string take_news() { return std::exchange(news_, {}); }
  std::int64_t steps_done() const { return steps_done_; }
  /// Until this rank had read its part of the checkpoint that it goes on from, and checked it.
  double loading_s() const { return loading_s_; }
  /// Where training stands after the last step.
  TrainingProgress progress() const;
  /// Inputs of all ranks in one step.
  std::int64_t tokens_per_step() const { return plan_.global_inputs() * plan_.micro_batches; }

 private:
  void load(Communicator& world, const NextCheckpoint& next);
  std::optional<DamagedCheckpoint> load_together(Communicator& world);
  void begin_at(std::shared_ptr<Checkpoint> checkpoint);
  void read_inputs();
  StepResult run_once(const StopRequests& requests, bool timed, std::int64_t begin_ns);
  StepResult settled(StepResult bad, bool timed, std::int64_t begin_ns);
  bool is_timed(std::int64_t step) const;

  const Job& job_;
  std::shared_ptr<Checkpoint> resumed_from_;
  double loading_s_ = 0;
  TrainingProgress start_;  ///< where this process began
  Model model_;
  TokenStream tokens_;
  Schedule schedule_;  ///< before the plan: it refuses sizes that are not positive
  BatchPlan plan_;
  Executor executor_;
  std::vector<std::int32_t> inputs_, targets_;  ///< of a step, on their way to the device
  ParameterSource start_weights_;
  std::int64_t steps_done_ = 0;
  std::int64_t skipped_steps_ = 0;
  StepMetrics last_;
  std::string news_;
  std::optional<std::int64_t> first_step_ns_;
};

}  // namespace shardscope
