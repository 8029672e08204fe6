// What a sharding adds to a step at least, whatever the model computes.
#pragma once

#include <compare>

#include "core/schedule/model_states.h"
#include "sim/planner/choice.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// What states and collectives depend on, whatever is computed.
struct ShardingKey {
  Runtime runtime = Runtime::native;
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  int replicate = 1, shard = 1;
  bool torchtitan = false;
  int context = 1, tensor = 1, experts = 0;
  int blocks_per_unit = 1;
  bool reduces_every_micro_batch = false;
  bool overlaps = false;  ///< DeepSpeed's overlap_comm
  Offload offload = Offload::none;
  TrainingPrecision precision = TrainingPrecision::fp32;
  auto operator<=>(const ShardingKey&) const = default;
};
ShardingKey sharding_key(const Choice& choice);

/// Collectives of one step, by what runs at once where they are not serial.
struct Communication {
  Duration gathers, reductions, between_replicas;
  Duration second_copy;  ///< gathers of it, whose communicator has other links
  /// Of experts that are spread, which have communicators of their own.
  Duration expert_gathers, expert_reductions, between_expert_replicas;
};

/// What a sharding adds to a step.
struct PerStep {
  Communication communication;
  Duration exposed;  ///< of it, beside which nothing can be computed
  Duration serial;   ///< of it, on the stream that computes
  Duration copies;   ///< kernels around the collectives, and sums of gradients
  Duration moves;    ///< copies around them on the stream that computes, which nothing slows
};

struct ShardingBounds {
  ModelStates states;    ///< on the device
  Bytes gathered;        ///< parameters and buffers beside activations when these take the most
  Bytes kept_gradients;  ///< that stay whole between micro-batches
  PerStep each;          ///< in every micro-batch
  PerStep further;       ///< in every micro-batch but the first
  PerStep once;          ///< in the last one
  Duration update;       ///< of the optimizer
  Duration host;         ///< in every micro-batch, beside what the model's operators take
  Duration host_once;    ///< the same in the last one
  /// What `each` exposes, each micro-batch exposes; else it is counted once a step.
  bool exposes_each = false;
};

/// `choice` is any one of the key. Throws as a plan of its units does.
ShardingBounds sharding_bounds(const Choice& choice, const TrialInputs& inputs);

}  // namespace shardscope::planner
