// A forward and backward of the model alone on one rank: what every strategy has to do at least.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/planner/trial.h"

namespace shardscope::planner {

/// What the work of a micro-batch depends on, whatever is sharded.
struct PlainKey {
  bool native = false;
  bool torchtitan = false;
  int context = 1, tensor = 1;  ///< ranks that share it
  int experts = 0;              ///< ranks over which experts are spread; 0: a dense model
  std::int64_t batch = 1;
  int checkpoint_every = 0;
  bool selective = false;
  Dtype parameters = Dtype::float32;  ///< as kernels read them
  std::optional<Dtype> autocast;
  auto operator<=>(const PlainKey&) const = default;
};
PlainKey plain_key(const Choice& choice);

/// Of the native runtime: one micro-batch on one rank.
Schedule native_alone(Choice choice, const TrialInputs& inputs);

/// By operation: what a bound may count of it. Nothing of what a fused kernel does beside its first
/// operator, and where weights are cast to 8 bits nothing but products, attention and collectives.
std::vector<Duration> claimed_times(const Schedule& schedule, const TrialInputs& inputs);

struct PlainStep {
  /// Sum of the kernels of one micro-batch, each alone, and of the collectives of torchtitan's axes
  /// context, tensor and expert that they wait for.
  Duration compute;
  Duration awaited;   ///< of it, those collectives
  Duration host;      ///< of its launches
  Bytes activations;  ///< with temporaries, at the highest, in blocks of 512 bytes
};
/// How long the device's kernels wait for collectives at least, by operation: what of each is left
/// when all kernels that are issued before one waits for it, and all waits before, have gone by
/// beside it. Of what none waits for, and of transfers between stages, 0. `times`: of the
/// operations.
std::vector<Duration> awaited_collectives(const Schedule& schedule,
                                          const std::vector<Duration>& times);

/// `choice` is any one of the key.
PlainStep plain_step(const Choice& choice, const TrialInputs& inputs);

}  // namespace shardscope::planner
