// Training steps as ../shared/data/pytorch/memory/record.py runs them, on the eager engine.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/training/training_run.h"

namespace shardscope::recordings {

/// A case's settings with the recorder's defaults under them.
nlohmann::ordered_json with_step_defaults(const nlohmann::ordered_json& settings);

/// The recorder's Step: model, wrapping, optimizer and batches.
class RecordedStep {
 public:
  /// `settings` with defaults. Observers of `s` see everything from the model's creation on.
  RecordedStep(eager::Session& s, const nlohmann::ordered_json& settings);

  eager::TrainingLoop& loop() { return run_->loop(); }
  eager::ParallelModel& model() { return run_->model(); }
  const Model& described() const { return model_; }

 private:
  Model model_;
  std::unique_ptr<eager::TrainingRun> run_;
};

/// The session of a case: an H100 without cuDNN's attention.
eager::SessionSettings step_session(bool watched);

/// Iterations, and of each the snapshots' names in the recorder's order: "after_forward_1".
std::string snapshot_name(const nlohmann::ordered_json& settings, eager::Moment moment,
                          int micro_batch);

}  // namespace shardscope::recordings
