// A training under PyTorch's runtimes, ready to play iterations on the eager engine.
#pragma once

#include <memory>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/runtimes/training/float8_layers.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope::eager {

/// The model under its runtime, optimizer and batches.
class TrainingRun {
 public:
  /// Observers of `s`, which setup.session made, see everything from the model's creation on.
  /// `config` is the config.json that `model` was made from. Throws Refusal where the real library
  /// raises, and Error for a model whose forward is not known.
  TrainingRun(Session& s, const shardscope::Model& model, const JsonValue& config,
              const TrainingSetup& setup, const SetupProbe& probe = {});
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun();

  ParallelModel& model() { return *model_; }
  TrainingLoop& loop() { return *loop_; }
  const ProcessGroups& groups() const { return groups_; }
  /// The quantised layers of the model; their state is no parameter of it.
  const QuantizedLayers& quantized() const { return quantized_; }
  /// Null: there is none.
  const LoraConfig* adapter() const { return adapter_ ? &*adapter_ : nullptr; }
  /// Whether the state dict has the state of quantised layers: it hangs on their parameters, which
  /// FSDP2, and FSDP1 without use_orig_params, replace.
  bool saves_quantized_state() const { return saves_quantized_state_; }

 private:
  std::unique_ptr<Session> maker_;            ///< where the model was made, if not on the device
  std::unique_ptr<Session> reference_maker_;  ///< the same of a second model
  ProcessGroups groups_;
  QuantizedLayers quantized_;
  std::optional<LoraConfig> adapter_;
  bool saves_quantized_state_ = true;
  std::unique_ptr<Float8Layers> float8_;
  std::unique_ptr<ParallelModel> model_;
  std::unique_ptr<TrainingLoop> loop_;
};

}  // namespace shardscope::eager
