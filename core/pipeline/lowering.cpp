#include "core/pipeline/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

bool contains(const std::vector<int>& stages, int stage) {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

/// The next stages that compute from `place` on, at least `count` where there are so many. The two
/// of an overlapped place come together.
std::vector<int> next_stages(const ActionOrder& order, std::size_t place, int count) {
  std::vector<int> stages;
  for (; place < order.size(); ++place) {
    if (order[place].idle()) continue;
    for (const Action& action : order[place].actions())
      if (!contains(stages, action.stage)) stages.push_back(action.stage);
    if (stages.size() >= static_cast<std::size_t>(count)) break;
  }
  return stages;
}

void check_fits(const ActionSlot& slot, int max_active_stages) {
  std::vector<int> stages;
  for (const Action& action : slot.actions())
    if (!contains(stages, action.stage)) stages.push_back(action.stage);
  if (stages.size() <= static_cast<std::size_t>(max_active_stages)) return;
  throw Refusal("ValueError",
                fmt::format("Atomic action {} requires {} stages, exceeding max_active_stages={}",
                            text_of(slot), stages.size(), max_active_stages));
}

/// Which actions have come so far, of one rank.
class Done {
 public:
  Done(std::size_t stages, int micro_batches)
      : stages_(stages),
        micro_batches_(static_cast<std::size_t>(micro_batches)),
        done_(static_cast<std::size_t>(action_kind_count) * stages * micro_batches_, false) {}

  void add(const Action& action) {
    if (action.micro_batch != Action::all_micro_batches) done_[index(action)] = true;
  }
  bool has(const Action& action) const { return done_[index(action)]; }

 private:
  std::size_t index(const Action& action) const {
    const auto kind = static_cast<std::size_t>(action.kind);
    return (kind * stages_ + static_cast<std::size_t>(action.stage)) * micro_batches_ +
           static_cast<std::size_t>(action.micro_batch);
  }

  std::size_t stages_, micro_batches_;
  std::vector<bool> done_;
};

class SendPass {
 public:
  SendPass(const std::vector<ActionOrder>& orders, const std::vector<int>& rank_of_stage,
           int micro_batches)
      : orders_(orders),
        rank_of_stage_(rank_of_stage),
        next_(orders.size(), 0),
        done_(orders.size(), Done(rank_of_stage.size(), micro_batches)),
        result_(orders.size()) {}

  std::vector<ActionOrder> played() && {
    while (is_left()) {
      bool progress = false;
      for (std::size_t rank = 0; rank < orders_.size(); ++rank) progress |= play_next(rank);
      if (!progress) {
        throw Refusal("AssertionError", "Malformed compute schedule, can't schedule sends/recvs");
      }
    }
    return std::move(result_);
  }

 private:
  bool is_left() const {
    for (std::size_t rank = 0; rank < orders_.size(); ++rank)
      if (next_[rank] < orders_[rank].size()) return true;
    return false;
  }

  bool play_next(std::size_t rank) {
    if (next_[rank] >= orders_[rank].size()) return false;
    const ActionSlot& slot = orders_[rank][next_[rank]];
    for (const Action& action : slot.actions())
      if (!is_ready(action, done_[rank])) return false;
    result_[rank].push_back(slot);
    for (const Action& action : slot.actions()) {
      done_[rank].add(action);
      if (sends(action)) send(action, rank);
    }
    ++next_[rank];
    return true;
  }

  void send(const Action& action, std::size_t rank) {
    const Action send{
        action.kind == ActionKind::forward ? ActionKind::send_forward : ActionKind::send_backward,
        action.stage, action.micro_batch};
    const Action receive = receive_of(send);
    const auto peer =
        static_cast<std::size_t>(rank_of_stage_[static_cast<std::size_t>(receive.stage)]);
    result_[rank].emplace_back(send);
    result_[peer].emplace_back(receive);
    done_[peer].add(receive);
  }

  bool is_last(int stage) const { return stage + 1 == static_cast<int>(rank_of_stage_.size()); }
  bool elsewhere(int stage, int other) const {
    return rank_of_stage_[static_cast<std::size_t>(stage)] !=
           rank_of_stage_[static_cast<std::size_t>(other)];
  }

  bool sends(const Action& action) const {
    if (action.kind == ActionKind::forward)
      return !is_last(action.stage) && elsewhere(action.stage, action.stage + 1);
    return is_input_backward(action.kind) && action.stage != 0 &&
           elsewhere(action.stage, action.stage - 1);
  }

  bool is_ready(const Action& action, const Done& done) const {
    const int micro_batch = action.micro_batch;
    if (action.kind == ActionKind::forward && action.stage != 0) {
      return done.has({ActionKind::receive_forward, action.stage, micro_batch}) ||
             done.has({ActionKind::forward, action.stage - 1, micro_batch});
    }
    if (is_input_backward(action.kind) && !is_last(action.stage)) {
      return done.has({ActionKind::receive_backward, action.stage, micro_batch}) ||
             done.has({ActionKind::backward_input, action.stage + 1, micro_batch}) ||
             done.has({ActionKind::full_backward, action.stage + 1, micro_batch});
    }
    return true;
  }

  const std::vector<ActionOrder>& orders_;
  const std::vector<int>& rank_of_stage_;
  std::vector<std::size_t> next_;
  std::vector<Done> done_;
  std::vector<ActionOrder> result_;
};

/// Moves the deferred receive that `wanted` names, if there is one, to the end of `order`.
void flush(const Action& wanted, std::vector<Action>& deferred, ActionOrder& order) {
  const auto found = std::find(deferred.begin(), deferred.end(), wanted);
  if (found == deferred.end()) return;
  order.emplace_back(*found);
  deferred.erase(found);
}

}  // namespace

ActionOrder with_unshards(const ActionOrder& order, int max_active_stages, int lookahead) {
  ActionOrder result;
  std::vector<int> active;  // in the order in which they were gathered
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (order[place].idle()) continue;
    check_fits(order[place], max_active_stages);
    const std::vector<int> resident = next_stages(order, place, max_active_stages);
    std::vector<int> kept;
    for (const int stage : active) {
      if (contains(resident, stage)) {
        kept.push_back(stage);
      } else {
        result.emplace_back(Action{ActionKind::reshard, stage});
      }
    }
    std::vector<int> fetched;
    for (const int stage : next_stages(order, place, lookahead))
      if (!contains(active, stage)) fetched.push_back(stage);
    for (const int stage : fetched) result.emplace_back(Action{ActionKind::unshard, stage});
    kept.insert(kept.end(), fetched.begin(), fetched.end());
    active = std::move(kept);
    result.push_back(order[place]);
  }
  for (const int stage : active) result.emplace_back(Action{ActionKind::reshard, stage});
  return result;
}

ActionOrder with_reductions(const ActionOrder& order, int micro_batches, bool defer_wait) {
  ActionOrder result;
  std::map<int, int> backwards;  // by stage
  std::optional<int> pending;    // stage whose reduction is waited for later
  for (const ActionSlot& slot : order) {
    if (slot.idle()) continue;
    result.push_back(slot);
    for (const Action& action : slot.actions()) {
      if (!ends_weight_gradient(action.kind) || ++backwards[action.stage] != micro_batches)
        continue;
      if (pending) result.emplace_back(Action{ActionKind::wait_reduce_grad, *pending});
      result.emplace_back(Action{ActionKind::reduce_grad, action.stage});
      if (defer_wait) {
        pending = action.stage;
      } else {
        result.emplace_back(Action{ActionKind::wait_reduce_grad, action.stage});
      }
    }
  }
  if (pending) result.emplace_back(Action{ActionKind::wait_reduce_grad, *pending});
  return result;
}

std::vector<ActionOrder> with_sends(const std::vector<ActionOrder>& orders,
                                    const std::vector<int>& rank_of_stage, int micro_batches) {
  return SendPass(orders, rank_of_stage, micro_batches).played();
}

ActionOrder with_send_waits(const ActionOrder& order) {
  ActionOrder result;
  std::vector<Action> pending;
  for (const ActionSlot& slot : order) {
    result.push_back(slot);
    for (const Action& action : slot.actions()) {
      if (is_send(action.kind)) pending.push_back(action);
      if (!is_input_backward(action.kind)) continue;
      const auto sent =
          std::find(pending.begin(), pending.end(),
                    Action{ActionKind::send_forward, action.stage, action.micro_batch});
      if (sent == pending.end()) continue;
      result.emplace_back(wait_of(*sent));
      pending.erase(sent);
    }
  }
  for (const Action& send : pending) result.emplace_back(wait_of(send));
  return result;
}

ActionOrder with_deferred_receives(const ActionOrder& order, int rank,
                                   const std::vector<int>& rank_of_stage) {
  const auto peer_rank = [&](const Action& action) {
    return rank_of_stage[static_cast<std::size_t>(peer_stage(action))];
  };
  ActionOrder result;
  std::vector<Action> deferred;
  for (const ActionSlot& slot : order) {
    const Action first = slot.actions()[0];
    if (is_receive(first.kind)) {
      deferred.push_back(first);
      continue;
    }
    // The lower of two ranks receives before it sends, so that both do not send and wait.
    if (is_send(first.kind) && rank < peer_rank(first)) {
      const std::vector<Action> waiting = deferred;
      for (const Action& receive : waiting)
        if (peer_rank(receive) == peer_rank(first)) flush(receive, deferred, result);
    }
    for (const Action& action : slot.actions()) {
      if (action.kind == ActionKind::forward)
        flush({ActionKind::receive_forward, action.stage, action.micro_batch}, deferred, result);
      if (is_input_backward(action.kind))
        flush({ActionKind::receive_backward, action.stage, action.micro_batch}, deferred, result);
    }
    result.push_back(slot);
  }
  return result;
}

}  // namespace shardscope
