// `--runtime torchtitan`: the Llama of torchtitan under FSDP2 with tensor and context parallelism.
#pragma once

#include <string>
#include <vector>

#include "cli/pytorch_scenario.h"
#include "core/pytorch/parallel/recorded_training.h"
#include "sim/allocator/allocator_settings.h"
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
  std::vector<std::string> assumed;
};

/// Throws Error naming option or key: what does not divide, and what is not modelled.
TorchtitanScenario resolve_torchtitan_scenario(const PytorchQuestion& question);

/// Simulates the scenario's rank.
Prediction predict(const TorchtitanScenario& scenario, const HardwareProfile& profile);

/// "torchtitan full_shard of LlamaForCausalLM on 128 ranks (shard=16,tensor=8), ...".
std::string headline(const TorchtitanScenario& scenario);

}  // namespace shardscope
