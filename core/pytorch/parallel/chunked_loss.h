// The head and the loss of a decoder, part by part along the sequence. Source: torchtitan 0.3.0,
// components/loss.py (ChunkedLossWrapper around CrossEntropyLoss).
#pragma once

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

namespace shardscope::eager::parallel {

inline constexpr int usual_loss_parts = 8;

struct ChunkedLoss {
  Module& head;
  fsdp2::FullySharded* sharded = nullptr;  ///< not owned; null: nothing is sharded
  int chunks = usual_loss_parts;
  const ProcessGroup* tensor =
      nullptr;  ///< over which the head's rows are split; null: they are not
};

/// What a rank's batch says: labels and positions (B, T), and how many labels all ranks have.
/// Positions are undefined in a pipeline.
struct LossInputs {
  Tensor labels, positions, labels_of_all;
};

/// The loss of `hidden` (B, T, D), whose gradients of the head are there when it returns. Error
/// where the length is no multiple of the parts.
Tensor chunked_loss(Session& s, const ChunkedLoss& loss, Tensor hidden, const LossInputs& inputs);

}  // namespace shardscope::eager::parallel
