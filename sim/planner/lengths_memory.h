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
  bool fits = true;  ///< false: a request failed even after the cache was given back
};

/// Of one pass over the sequences, at most 1,000 micro-batches: the caching allocator is played
/// with those of growing_lengths. Sequences of a micro-batch are padded to the longest and masked.
/// Blocks that another stream used count as free at once, so that reserved bytes are a lower bound.
/// None where the lengths do not reach the model: sequences that are packed or flattened, a
/// compiled model, an export.
std::optional<LengthsMemory> memory_of_lengths(const PytorchTraining& training, const Model& model,
                                               const JsonValue& config,
                                               const HardwareProfile& profile,
                                               const SequenceLengths& lengths);

}  // namespace shardscope::planner
