// What each of the real runtimes makes of a model: its units, buckets or partitions as the library
// builds them, and the bytes of P, G and OS that a rank holds between steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/pytorch/plans/ddp_buckets.h"
#include "core/pytorch/plans/deepspeed_zero.h"
#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/plans/fsdp2.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/plans/sharding_plan.h"

namespace shardscope {

/// What a plan is asked about besides the runtime's own settings.
struct PlanQuestion {
  int world = 1;
  int rank = 0;                    ///< whose shards and bytes are shown
  std::string precision = "fp32";  ///< as it is shown
  Optimizer optimizer;
  /// Trainable parameters are held in float32 whatever the model's dtype: what accelerate does
  /// under mixed precision.
  bool float32_parameters = false;
};

/// FSDP1. P = shard x dtype of the original parameters; G the same for units that train; OS = the
/// optimizer's states in that dtype: of the whole shard, or with use_orig_params of the trainable
/// elements in it. Alignment and padding count where they are stored. Throws Refusal where the
/// library refuses, and Error (ExitCode::no) where the ranks would disagree about the units.
/// Source: torch 2.15 distributed/fsdp/_flat_param.py (FlatParamHandle.shard, prepare_gradient).
ShardingPlan plan_of(const ModuleTree& tree, const Fsdp1Settings& settings,
                     const PlanQuestion& question);

/// How FSDP2's groups came about, as it is shown.
struct Fsdp2Shown {
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  Fsdp2Mesh mesh;
  std::string wrap;
};

/// FSDP2. P = padded shards; G = the same of what trains, as it leaves the reduce-scatter; OS = the
/// states of the elements that are really there, in the dtype of the sharded parameters. Throws
/// Refusal (ExitCode::no) where the first forward would be refused. Source: torch 2.15
/// torch/distributed/fsdp/_fully_shard/_fsdp_param.py.
ShardingPlan plan_of(const ModuleTree& tree, const Fsdp2Plan& fsdp2, const Fsdp2Shown& shown,
                     const PlanQuestion& question);

/// DDP, alone or with ZeroRedundancyOptimizer (ZeRO stage 1).
struct DdpShown {
  DdpOptions options;
  bool zero_redundancy = false;
};

/// DDP: whole parameters, gradients and states on every rank; its buckets are a second copy of the
/// gradients unless they are views into them (gradient_as_bucket_view). ZeroRedundancyOptimizer: a
/// rank has states of the parameters that it owns. Source: torch 2.15
/// torch/nn/parallel/distributed.py, distributed/optim/zero_redundancy_optimizer.py.
ShardingPlan plan_of(const ModuleTree& tree, const DdpShown& shown, const PlanQuestion& question);

/// DeepSpeed; stage 0 is allowed too. P in the training dtype: whole (stages 0 to 2), or partitions
/// and the persistent parameters whole (3). G in that dtype or grad_accum_dtype: whole (0, 1), a
/// partition (2, 3). OS = a float32 master (from stage 1 on in every precision) and the optimizer's
/// states: whole (0), a partition (1 to 3). One optimizer group of all parameters. Source:
/// deepspeed 0.19.8 runtime/zero/stage_1_and_2.py, stage3.py, runtime/bf16_optimizer.py.
ShardingPlan plan_of(const ModuleTree& tree, const ZeroSettings& settings,
                     const PlanQuestion& question);

}  // namespace shardscope
