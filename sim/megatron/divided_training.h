// A training whose model is divided over tensor, pipeline, context and expert ranks, by the part of
// one rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/pytorch/runtimes/training/training_setup.h"
#include "core/schedule/strategy.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/kernels/float8.h"
#include "sim/kernels/fusion.h"
#include "sim/megatron/expert_parallel.h"
#include "sim/megatron/host_waits.h"
#include "sim/megatron/pipeline.h"
#include "sim/megatron/ring_attention.h"
#include "sim/megatron/shaped_model.h"
#include "sim/megatron/tensor_parallel.h"
#include "sim/megatron/update.h"

namespace shardscope {

struct DividedTraining {
  ShapedModel model;  ///< the whole
  /// What is played: the whole, or what one rank holds of one stage's layers.
  ShapedModel played;
  std::optional<MegatronPipeline> pipeline;
  TensorParallel tensor;
  ExpertParallel experts;
  std::optional<MegatronUpdate> update;  ///< of a training that is played without one
  eager::TrainingSetup setup;            ///< of one micro-batch, of `played`
  HardwareProfile profile;
  Runtime runtime = Runtime::ddp;
  KernelChoices kernels;
  HostWaits waits;
  bool unfused_loss = false;
  Float8Kernels float8;
  RingAttention ring;  ///< `setup` has one rank's part of a sequence
  int world = 1;       ///< ranks that gradients are reduced over; setup.world: that share states
  int owners = 0;      ///< ranks that update whole tensors; 0: each updates an equal part
  double micro_batches = 1;          ///< of a step; not whole where the last one is smaller
  std::int64_t tokens_per_step = 0;  ///< of all ranks
  std::vector<std::string> assumed;
};

}  // namespace shardscope
