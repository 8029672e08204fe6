// Options about adapters and quantised bases under PyTorch's runtimes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/job_options.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/plans/runtime_request.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope {

struct FineTuningOptions {
  std::optional<std::string> peft, quantization, prepare_kbit;
  std::optional<std::string> peft_version;
  std::optional<std::string> base_dtype, trainable_dtype, unsloth;
  bool keeps_magnitudes = false;  ///< of a file: Recipe::keeps_magnitudes

  bool casts_ends_and_back = false;  ///< the same

  bool uses_unsloth() const { return unsloth && *unsloth != "off"; }
};

void declare_fine_tuning_options(Command& command, FineTuningOptions& options);

/// What the options and the config's quantization_config ask for; none: nothing. `model` is the
/// base as its config says. What nobody said is added to `assumed`. Throws Error naming option,
/// file or key.
std::optional<eager::FineTuningSetup> fine_tuning_of(const FineTuningOptions& options,
                                                     const JobOptions& job, const Model& model,
                                                     const JsonValue& config,
                                                     std::vector<std::string>& assumed);

/// Whether adapters have the dtype of the layer that they are in, if it is a float. Source:
/// LoraLayer.update_layer of 0.9 to 0.11; from 0.12 on autocast_adapter_dtype makes them float32.
/// Throws Error for a version that is not known.
bool adapters_as_base(const std::optional<std::string>& peft_version);

/// What the weights of a base are loaded in where only the training's precision is known.
Dtype loaded_dtype(TrainingPrecision precision);

/// The model as --base-dtype has it loaded, and as --trainable-dtype casts it: a model without
/// adapters trains as a whole.
Model in_given_dtypes(const FineTuningOptions& options, Model model);

/// The model as --base-dtype or else its config has it loaded, before anything is cast.
Model as_loaded(const FineTuningOptions& options, const JsonValue& config, Model model);

/// ", nf4 base, LoRA r=16" for a headline.
std::string fine_tuning_words(const eager::FineTuningSetup& tuning);

/// Puts it into a training whose runtime is set up: where the model is made, which blocks
/// transformers checkpoints, and on one rank the model alone.
void apply_fine_tuning(eager::FineTuningSetup tuning,
                       const std::optional<std::string>& checkpointing,
                       eager::TrainingSetup& setup);

}  // namespace shardscope
