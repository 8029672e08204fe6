// `--runtime torchtitan`: the Llama of torchtitan under FSDP2 with pipeline, tensor and
// context parallelism.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/pytorch_scenario.h"
#include "core/pytorch/parallel/recorded_training.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/planner/choice.h"
#include "sim/prediction/prediction.h"

namespace shardscope {

inline constexpr std::string_view torchtitan_runtime = "torchtitan";

struct TorchtitanScenario {
  Model model;
  eager::parallel::ParallelSettings settings;
  eager::parallel::RankPlace place;
  eager::SessionSettings session;
  std::string strategy, precision, mesh;
  AllocatorSettings allocator;
  CompileScope compiled = CompileScope::none;
  /// Loads of the busiest rank's experts that the step may have beside the one of the settings.
  std::optional<std::pair<double, double>> expert_loads = {};
  std::vector<std::string> assumed;
};

/// Throws Error naming an option of which torchtitan's loop has one value.
void refuse_under_torchtitan(const PytorchOptions& options);

/// Of --compile. Throws Error where torchtitan does not compile so.
CompileScope torchtitan_compile_scope(const PytorchOptions& options);
/// What is said of --float8 without --compile.
inline constexpr std::string_view eager_float8_note =
    "float8 runs without torch.compile, so its casts are slow";

/// Throws Error naming option or key: what does not divide, and what is not modelled.
TorchtitanScenario resolve_torchtitan_scenario(const PytorchQuestion& question);

/// The options that lead to a plan's choice of torchtitan, or its pipeline of fsdp2. What they do
/// not say (tokens, clipping, optimizer) is `job`'s.
JobOptions options_of_torchtitan(const planner::Choice& choice, JobOptions job);

/// Simulates the scenario's rank, or one rank of every stage of its pipeline, in order.
std::vector<Prediction> predict_stages(const TorchtitanScenario& scenario,
                                       const HardwareProfile& profile);
/// Which of them is the scenario's rank's.
std::size_t own_stage(const TorchtitanScenario& scenario);

/// Its pipeline; of one rank where it has none.
PipelineSetup setup_of(const TorchtitanScenario& scenario);

/// "torchtitan full_shard of LlamaForCausalLM on 128 ranks (shard=16,tensor=8), ...".
std::string headline(const TorchtitanScenario& scenario);

}  // namespace shardscope
