#include "core/pipeline/compute_order.h"

#include <set>

#include "core/pipeline/program.h"

namespace shardscope {
namespace {

/// All micro-batches of a stage before the next stage, backwards in the opposite order
/// (arXiv:2211.05953).
ActionOrder looped_bfs_order(const PipelineSetup& setup, int rank) {
  ActionOrder order(static_cast<std::size_t>(rank));
  for (int stage = rank; stage < setup.stages(); stage += setup.ranks)
    for (int micro_batch = 0; micro_batch < setup.micro_batches; ++micro_batch)
      order.emplace_back(Action{ActionKind::forward, stage, micro_batch});
  order.resize(order.size() + static_cast<std::size_t>(2 * (setup.ranks - 1 - rank)));
  for (int stage = setup.stages() - setup.ranks + rank; stage >= 0; stage -= setup.ranks)
    for (int micro_batch = setup.micro_batches - 1; micro_batch >= 0; --micro_batch)
      order.emplace_back(Action{ActionKind::full_backward, stage, micro_batch});
  return order;
}

/// Delays the places of a zero bubble schedule until what they need has been computed. PyTorch
/// asks this of forwards only: backwards there are apart.
class BubbleFiller {
 public:
  explicit BubbleFiller(const std::vector<ActionOrder>& orders)
      : orders_(orders), filled_(orders.size()), next_(orders.size(), 0) {}

  std::vector<ActionOrder> filled() && {
    while (play_one_place()) {
    }
    return std::move(filled_);
  }

 private:
  /// False when all orders are through.
  bool play_one_place() {
    bool any = false;
    std::vector<Action> computed;
    for (std::size_t rank = 0; rank < orders_.size(); ++rank) {
      if (next_[rank] >= orders_[rank].size()) continue;
      any = true;
      const ActionSlot& slot = orders_[rank][next_[rank]];
      if (!slot.idle() && waits(slot.actions()[0])) {
        filled_[rank].emplace_back();
        continue;
      }
      ++next_[rank];
      filled_[rank].push_back(slot);
      if (!slot.idle()) computed.push_back(slot.actions()[0]);
    }
    computed_.insert(computed.begin(), computed.end());
    return any;
  }

  bool waits(const Action& action) const {
    return action.kind == ActionKind::forward && action.stage != 0 &&
           !computed_.contains({action.kind, action.stage - 1, action.micro_batch});
  }

  const std::vector<ActionOrder>& orders_;
  std::vector<ActionOrder> filled_;
  std::vector<std::size_t> next_;
  std::set<Action> computed_;
};

/// The forwards and backwards of the rank's program.
ActionOrder single_stage_order(const PipelineSetup& setup, int rank) {
  ActionOrder order;
  for (const PipelineInstruction& instruction : single_stage_program(setup, rank))
    if (instruction.kind == InstructionKind::act && is_compute(instruction.action.kind))
      order.emplace_back(instruction.action);
  return order;
}

ActionOrder rank_order(const PipelineSetup& setup, int rank) {
  switch (setup.kind) {
    case PipelineScheduleKind::gpipe:
    case PipelineScheduleKind::one_f_one_b:
      return single_stage_order(setup, rank);
    case PipelineScheduleKind::looped_bfs:
      return looped_bfs_order(setup, rank);
    case PipelineScheduleKind::zbv_zero_bubble:
      return zbv_order(setup, rank);
    case PipelineScheduleKind::dualpipev:
      return dualpipev_order(setup, rank);
    default:
      return interleaved_order(setup, rank);
  }
}

}  // namespace

std::vector<ActionOrder> compute_orders(const PipelineSetup& setup) {
  std::vector<ActionOrder> orders;
  for (int rank = 0; rank < setup.ranks; ++rank) orders.push_back(rank_order(setup, rank));
  if (setup.kind != PipelineScheduleKind::interleaved_zero_bubble) return orders;
  return BubbleFiller(orders).filled();
}

}  // namespace shardscope
