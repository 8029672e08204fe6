// PyTorch's lowering of compute orders: what a rank gathers, reduces, sends and receives between
// its forwards and backwards. Each pass is a pure function.
#pragma once

#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"

namespace shardscope {

/// Gathers the parameters of the stages that come next and lets go those that come later; without
/// idle places. Throws Refusal where one place needs more stages than may be active.
ActionOrder with_unshards(const ActionOrder& order, int max_active_stages, int lookahead);

/// Reduces a stage's gradients after its last backward. The wait follows, or comes before the next
/// reduction where it is deferred.
ActionOrder with_reductions(const ActionOrder& order, int micro_batches, bool defer_wait);

/// Sends what the next or previous stage needs, where that is on another rank. The sender puts the
/// receive into its peer's order, so that both meet. Throws Refusal where the orders cannot be
/// played.
std::vector<ActionOrder> with_sends(const std::vector<ActionOrder>& orders,
                                    const std::vector<int>& rank_of_stage, int micro_batches);

/// A forward's send is waited for after the same micro-batch's backward, all others at the end.
ActionOrder with_send_waits(const ActionOrder& order);

/// Moves each receive to the action that needs it, or before a send to the same rank where that
/// rank is higher.
ActionOrder with_deferred_receives(const ActionOrder& order, int rank,
                                   const std::vector<int>& rank_of_stage);

/// Moves waits forward so that no rank has more than `most` sends under way. Throws Refusal where
/// no place is safe.
std::vector<ActionOrder> with_fewer_sends(const std::vector<ActionOrder>& orders, int most);

}  // namespace shardscope
