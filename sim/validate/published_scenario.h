// A published run as a training that can be played on a machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "core/pytorch/runtimes/training/training_setup.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/kernels/float8.h"
#include "sim/validate/published_expert_parallel.h"
#include "sim/validate/published_host.h"
#include "sim/validate/published_model.h"
#include "sim/validate/published_pipeline.h"
#include "sim/validate/published_ring.h"
#include "sim/validate/published_row.h"
#include "sim/validate/published_stack.h"
#include "sim/validate/published_tensor_parallel.h"
#include "sim/validate/published_update.h"

namespace shardscope {

struct PublishedScenario {
  PublishedModel model;  ///< the whole
  /// What is played: the whole, or what one rank holds of one stage's layers.
  PublishedModel played;
  std::optional<PublishedPipeline> pipeline;
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

/// Why the row is no run that can be predicted: "FP8", "pipeline of 4 stages"; "" where it can.
std::string why_not_predicted(const PublishedRow& row);

/// The row must be one that can be predicted. Throws Error where its shape makes no model.
PublishedScenario published_scenario(const PublishedRow& row);

/// The measured step: as it stands in the row, or from tokens or flops a second. None where the
/// row has neither. `assumed` is told how it follows.
std::optional<Duration> measured_step(const PublishedRow& row, const PublishedScenario& scenario,
                                      std::vector<std::string>& assumed);

}  // namespace shardscope
