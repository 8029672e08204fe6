// Memory of a run whose micro-batches differ in length.
#pragma once

#include <optional>

#include "sim/planner/pytorch_training.h"
#include "sim/planner/sequence_lengths.h"

namespace shardscope::planner {

struct LengthsMemory {
  int micro_batches = 0;     ///< of the run that was drawn
  std::int64_t longest = 0;  ///< of them, tokens
  Bytes peak_allocated, peak_reserved;
  bool out_of_memory = false;  ///< a request failed even after the cache was given back
  bool fits = true;            ///< with what lies outside, and the margin is left
};

/// What a run has of a device.
struct DeviceRoom {
  Bytes memory;   ///< of the device; 0: not known, so that everything fits
  Bytes outside;  ///< of it, what the process holds beside the allocator
  Bytes margin;   ///< of it, that has to stay free
};

/// Of one pass over the sequences, of which each rank takes its share, at most 1,000 micro-batches:
/// the caching allocator is played with those of growing_lengths. Sequences of a micro-batch are
/// padded to the longest and masked, but where FlashAttention was asked for. Blocks that another
/// stream used count as free at once, so that reserved bytes are a lower bound. None where the
/// lengths do not reach the model: sequences that are packed or flattened, a compiled model, an
/// export. Throws Error as check_prompt does, and where the training cannot run on such lengths.
std::optional<LengthsMemory> memory_of_lengths(const PytorchTraining& training, const Model& model,
                                               const JsonValue& config, const DeviceRoom& room,
                                               const SequenceLengths& lengths);

/// Throws Error where a micro-batch that memory_of_lengths plays is not longer than the prompt.
void check_prompt(const eager::TrainingSetup& setup, const Model& model,
                  const SequenceLengths& lengths);

}  // namespace shardscope::planner
