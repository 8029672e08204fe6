// Pipelines of torchtitan tried out, rank by rank.
#pragma once

#include <optional>

#include "sim/planner/trial.h"

namespace shardscope::planner {

/// Fewer micro-batches in whose place more of them follow: each further `unit` adds as much.
struct FewMicroBatches {
  int few = 0, unit = 0;  ///< 0: all of them are played
};

/// From twice as many micro-batches as ranks on, ranks wait for each other in a pattern that
/// repeats with as many more; as stages, where the stages of a rank are in a V.
FewMicroBatches few_micro_batches(const Choice& choice);

/// What a rank of a pipeline needs. It follows from the rank's own stages alone: layouts that
/// differ in the layers of other ranks share it.
struct RankMemory {
  Bytes allocated;  ///< with all micro-batches, from what few and one unit more take
  Bytes outside;
  std::optional<Bytes> beyond;  ///< what the allocator holds, where that does not fit the device
};

/// See `try_pipeline`. Its first step is not needed: the second is the one that repeats. The first
/// rank that does not fit ends it.
Trial try_torchtitan(const Choice& choice, const TrialInputs& inputs,
                     const std::stop_token& stop = {});

}  // namespace shardscope::planner
