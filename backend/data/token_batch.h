// Which tokens a rank reads in a step.
#pragma once

#include <cstdint>
#include <span>

#include "backend/data/token_stream.h"

namespace shardscope {

/// A rank's part of the global batch. Micro-batch a of step s (both from 0) starts at global
/// position token_start + (s * micro_batches + a) * B * T, where B = batch * ranks; rank r has rows
/// r*batch ... of it.
struct BatchPlan {
  std::int64_t token_start = 0;
  std::int64_t batch = 1;   ///< sequences per rank and micro-batch
  std::int64_t length = 1;  ///< T
  int micro_batches = 1;
  int rank = 0;  ///< among the data-parallel ranks
  int ranks = 1;
  std::int64_t vocabulary = 256;  ///< tokens must be below

  /// Inputs of all ranks in one micro-batch, B * T.
  std::int64_t global_inputs() const { return batch * ranks * length; }
  /// Inputs of this rank in one step.
  std::int64_t local_inputs() const { return batch * length * micro_batches; }
};

/// Global position of this rank's first token.
std::int64_t position_of(const BatchPlan& plan, std::int64_t step, int micro_batch);

/// Fills the rank's tokens and targets of all micro-batches of a step, one after the other. Throws
/// Error for a token outside the vocabulary.
void read_step(const TokenStream& stream, const BatchPlan& plan, std::int64_t step,
               std::span<std::int32_t> tokens, std::span<std::int32_t> targets);

/// Throws Error unless one batch fits and the tokens of the first `steps` steps (of at most 2^28
/// tokens) are in the vocabulary, so that a wrong file is found before the first step.
void require_usable(const TokenStream& stream, const BatchPlan& plan, std::int64_t steps);

}  // namespace shardscope
