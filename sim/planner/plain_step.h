// A forward and backward of the model alone on one rank: what every strategy has to do at least.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "sim/planner/trial.h"

namespace shardscope::planner {

/// What the work of a micro-batch depends on, whatever is sharded.
struct PlainKey {
  bool native = false;
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

struct PlainStep {
  Duration compute;   ///< sum of the kernels of one micro-batch, each alone
  Duration host;      ///< of its launches
  Bytes activations;  ///< with temporaries, at the highest, in blocks of 512 bytes
};
/// `choice` is any one of the key.
PlainStep plain_step(const Choice& choice, const TrialInputs& inputs);

}  // namespace shardscope::planner
