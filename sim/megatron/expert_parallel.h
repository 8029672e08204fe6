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

/// Adds to the steady step what Megatron's dispatcher does around the experts of a layer, in
/// forward, recomputation and backward. Before the experts: an all-to-all of the rows, then a sort
/// into the experts' order. After them: a sort back, then an all-to-all. The played experts get
/// rows from all ranks, as many as this rank sends (even loads). `schedule` has the kernels that
/// run.
/// Source: Megatron-LM core/transformer/moe/token_dispatcher.py (MoEAlltoAllTokenDispatcher).
Schedule with_expert_parallel(Schedule schedule, const ExpertParallel& experts);

}  // namespace shardscope
