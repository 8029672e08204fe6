// The collectives of expert parallelism in the schedule of one rank's part of a model.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"

namespace shardscope {

struct ExpertParallel {
  int ranks = 1;              ///< neighbours: each has as many of a layer's experts
  std::int64_t rows = 0;      ///< pairs of token and expert of a micro-batch, of a rank
  std::int64_t hidden = 0;    ///< columns of a row
  bool counts_tokens = true;  ///< dropless: ranks tell how many rows come, and the host waits
  bool operator==(const ExpertParallel&) const = default;
};

/// Adds to the steady step what Megatron's dispatcher does around the experts of a layer, forward,
/// again and backward: an all-to-all of their rows before and behind them, and each time the rows
/// put into the experts' order and back. The played experts have the rows of all ranks that are
/// theirs, as many as this rank sends where loads are even. `schedule` has the kernels that run.
/// Source: Megatron-LM core/transformer/moe/token_dispatcher.py (MoEAlltoAllTokenDispatcher).
Schedule with_expert_parallel(Schedule schedule, const ExpertParallel& experts);

}  // namespace shardscope
