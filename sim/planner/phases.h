// Memory of the phases of a run besides its training steps.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/pytorch_training.h"

namespace shardscope::planner {

struct PhaseMemory {
  /// "load", "adapter", "wrap", "evaluate", "save", "save_optimizer", "resume"; "train" only where
  /// it does not fit
  std::string phase;
  Bytes peak_allocated, peak_active, peak_reserved;  ///< inside it
  Bytes allocated, reserved;                         ///< after it
  Bytes host_per_node;  ///< of the model and of states that the processes of a node hold
  bool fits = true;     ///< false: a request failed, and nothing after it is known
  bool operator==(const PhaseMemory&) const = default;
};

/// What training holds and the phases do not play.
struct HeldBeside {
  Bytes outside;        ///< of the device, not from the allocator: context, NCCL
  Bytes host_per_node;  ///< by offload
};

/// The phases in their order: the model is loaded, gets adapters, is wrapped, trains two steps, is
/// evaluated with labels and its logits kept, and is saved as transformers' Trainer saves it,
/// unless the library refuses that (FSDP1's NO_SHARD): the model, then the optimizer. Last, another
/// process has loaded both to go on. Where shards of FSDP are saved, the model goes with the
/// optimizer. Blocks that another stream used count as free at once, so that reserved bytes are a
/// lower bound. `beside.outside` is taken from the start, `beside.host_per_node` after the
/// training. `eval_batch`: sequences, or pairs, of an evaluation's micro-batch; 0: as many as in
/// training.
std::vector<PhaseMemory> phases_of(const PytorchTraining& training, const Model& model,
                                   const JsonValue& config, const HardwareProfile& profile,
                                   const HeldBeside& beside, std::int64_t eval_batch = 0);

}  // namespace shardscope::planner
