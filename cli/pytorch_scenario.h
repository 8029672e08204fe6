// What a verb is asked about PyTorch's runtimes, resolved: the model, and a training that can be
// played.
#pragma once

#include <filesystem>
#include <optional>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "cli/pytorch_options.h"
#include "cli/sharding_options.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/native/job.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/choice.h"
#include "sim/planner/pytorch_training.h"

namespace shardscope {

struct PytorchQuestion {
  const JobOptions& job;
  const ShardingOptions& sharding;
  const PytorchOptions& pytorch;
  const PlaceOptions& place;
  GpuKind gpu;
};

struct PytorchScenario {
  Job job;
  Model model;       ///< as it is trained: with adapters, where there are any
  JsonValue config;  ///< the config.json that it was made from
  planner::PytorchTraining training;
  std::int64_t eval_batch = 0;  ///< of phases_of
};

/// Compute capability of the profile's devices. Throws Error for a profile that is no GPU's.
GpuKind gpu_of(const HardwareProfile& profile);

/// The config.json, or export with a training step, of --model. Throws Error where there is none.
JsonValue config_of(const std::filesystem::path& model);

/// The model that the config describes, without adapters.
const Model& base_of(const PytorchScenario& scenario);

/// What loading and losses find free on the GPU. Unsloth looks when the first loss is computed: the
/// weights are there, and little else. `model`: as it is trained.
void apply_free_memory(const GpuKind& gpu, const Model& model,
                       std::optional<eager::FineTuningSetup>& tuning);

/// Throws Error naming option, key or file: what the real libraries refuse, and what is not
/// modelled.
PytorchScenario resolve_pytorch_scenario(const PytorchQuestion& question);

/// TRL's trainers load on one device by device_map="auto": all weights out of one block. Under DDP
/// they and plain scripts load on the host. Tools whose file was given name the device, and cast
/// what trains there. Changes nothing else. Source: TRL 1.16, trainer/utils.py
/// (create_model_from_path) and sft_trainer.py; transformers 5.24 trainer.py; LLaMA-Factory 0.9.5,
/// hparams/parser.py and model/adapter.py; ms-swift 4.6, model/utils.py (get_default_device_map).
void place_loading(PytorchScenario& scenario, const ShardingOptions& sharding,
                   const FineTuningOptions& dtypes);

/// The same of one run: a plan's place as the plan weighs it, else with place_loading; with the
/// allocator's settings.
PytorchScenario scenario_of_one_run(const PytorchQuestion& question,
                                    const HardwareProfile& profile);

/// What the planner's choices of the scenario's training have in common.
planner::Training training_of(const PytorchScenario& scenario, bool through_accelerate);

/// Of set-up, the first two steps and the steady one.
Schedule schedule_of(const PytorchScenario& scenario);

/// Simulates the scenario's rank.
Prediction predict(const PytorchScenario& scenario, const HardwareProfile& profile);

}  // namespace shardscope
