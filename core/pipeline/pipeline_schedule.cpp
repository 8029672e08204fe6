#include "core/pipeline/pipeline_schedule.h"

#include <fmt/format.h>

#include "core/base/refusal.h"
#include "core/pipeline/compute_order.h"
#include "core/pipeline/lowering.h"

namespace shardscope {

LoweredSchedule lowered_schedule(const PipelineSetup& setup) {
  const PipelineOptions& options = setup.options;
  if (options.max_outstanding_sends && *options.max_outstanding_sends < 0)
    throw Refusal("ValueError", "max_outstanding_sends must be a non-negative integer");
  check_counts(setup);
  LoweredSchedule schedule{.computes = compute_orders(setup), .lowered = {}};
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  const std::vector<int> lookahead = resolved_lookahead(setup);
  std::vector<ActionOrder> orders;
  for (std::size_t rank = 0; rank < schedule.computes.size(); ++rank) {
    orders.push_back(with_reductions(
        with_unshards(schedule.computes[rank], options.max_active_stages, lookahead[rank]),
        setup.micro_batches, options.defer_reduce_grad_wait));
  }
  orders = with_sends(orders, rank_of_stage, setup.micro_batches);
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    orders[rank] = with_send_waits(orders[rank]);
    if (options.defer_receives) {
      orders[rank] = with_deferred_receives(orders[rank], static_cast<int>(rank), rank_of_stage);
    }
  }
  if (options.max_outstanding_sends)
    orders = with_fewer_sends(orders, *options.max_outstanding_sends);
  schedule.lowered = std::move(orders);
  return schedule;
}

}  // namespace shardscope
