// How torchtitan brings tokens to their experts and back. Source: torchtitan 0.3.0,
// models/common/token_dispatcher.py (LocalTokenDispatcher, AllToAllTokenDispatcher).
#pragma once

#include <cstdint>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::parallel {

/// What a router said: of tokens (T, K) scores and experts, and of each expert the tokens here.
struct Routing {
  Tensor scores, experts, counts;
};

/// What of the dispatch the combination needs.
struct Dispatched {
  Tensor tokens;              ///< (R, D), expert by expert
  Tensor counts;              ///< of each expert that is here
  Tensor token_of;            ///< (N): whose copy a row is, before the exchange
  Tensor scores;              ///< (N), in the same order
  Tensor places;              ///< (R): where a row lay as it came; none: it came from here
  std::int64_t received = 0;  ///< R
};

/// `ranks` are those that experts are spread over; null: all are here. The experts of this one get
/// `load` times as many tokens as there are for a rank on average.
Dispatched dispatch_tokens(Session& s, const ProcessGroup* ranks, double load, const Tensor& tokens,
                           const Routing& routing);
/// `routed` are the experts' results of dispatched tokens; (T, D) as `tokens`.
Tensor combine_tokens(Session& s, const ProcessGroup* ranks, const Dispatched& dispatched,
                      Tensor routed, const Tensor& tokens);

}  // namespace shardscope::eager::parallel
