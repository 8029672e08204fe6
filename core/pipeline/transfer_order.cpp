#include "core/pipeline/transfer_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/refusal.h"
#include "core/pipeline/compute_order.h"

namespace shardscope {
namespace {

int time_of(ActionKind kind) { return kind == ActionKind::full_backward ? 2 : 1; }

/// Where a transfer stands among all.
struct TransferKey {
  int time = 0;
  bool of_gradient = false;
  Action send;
  auto operator<=>(const TransferKey&) const = default;
};

/// When every action ends.
class UnitTimes {
 public:
  UnitTimes(const std::vector<ActionOrder>& orders, int stages) : orders_(orders), stages_(stages) {
    std::vector<std::size_t> next(orders.size(), 0);
    std::vector<int> free(orders.size(), 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < orders.size(); ++rank)
        while (next[rank] < orders[rank].size() && play(orders[rank][next[rank]], free[rank])) {
          ++next[rank];
          progress = true;
        }
    }
    for (std::size_t rank = 0; rank < orders.size(); ++rank)
      if (next[rank] < orders[rank].size())
        throw Refusal("AssertionError", "Malformed compute schedule, can't schedule sends/recvs");
  }

  int end_of(const Action& action) const { return ends_.at(action); }

 private:
  bool play(const ActionSlot& slot, int& free) {
    int start = free;
    for (const Action& action : slot.actions()) {
      const std::optional<int> ready = ready_at(action);
      if (!ready) return false;
      start = std::max(start, *ready);
    }
    for (const Action& action : slot.actions()) start += time_of(action.kind);
    for (const Action& action : slot.actions()) ends_[action] = start;
    free = start;
    return true;
  }

  /// None: not yet known.
  std::optional<int> ready_at(const Action& action) const {
    const int m = action.micro_batch;
    const int stage = action.stage;
    if (action.kind == ActionKind::forward)
      return stage == 0 ? 0 : end_of_any({{ActionKind::forward, stage - 1, m}});
    if (action.kind == ActionKind::backward_weight)
      return end_of_any({{ActionKind::backward_input, stage, m}});
    if (stage + 1 == stages_) return end_of_any({{ActionKind::forward, stage, m}});
    return end_of_any(
        {{ActionKind::full_backward, stage + 1, m}, {ActionKind::backward_input, stage + 1, m}});
  }
  std::optional<int> end_of_any(std::initializer_list<Action> actions) const {
    for (const Action& action : actions)
      if (const auto found = ends_.find(action); found != ends_.end()) return found->second;
    return std::nullopt;
  }

  const std::vector<ActionOrder>& orders_;
  int stages_;
  std::map<Action, int> ends_;
};

class TransferPass {
 public:
  explicit TransferPass(const PipelineSetup& setup)
      : rank_of_stage_(rank_of_stages(setup)),
        orders_(compute_orders(setup)),
        times_(orders_, setup.stages()),
        receives_(orders_.size()) {
    for (const ActionOrder& order : orders_)
      for (const ActionSlot& slot : order)
        for (const Action& action : slot.actions())
          if (const auto key = key_of(action)) receives_[receiver_of(*key)].push_back(*key);
    for (std::vector<TransferKey>& receives : receives_) std::ranges::sort(receives);
  }

  std::vector<ActionOrder> orders() const {
    std::vector<ActionOrder> result;
    for (std::size_t rank = 0; rank < orders_.size(); ++rank) result.push_back(order_of(rank));
    return result;
  }

 private:
  std::size_t rank_of(int stage) const {
    return static_cast<std::size_t>(rank_of_stage_[static_cast<std::size_t>(stage)]);
  }
  std::size_t receiver_of(const TransferKey& key) const { return rank_of(peer_stage(key.send)); }

  /// None where an action's result stays on its rank.
  std::optional<TransferKey> key_of(const Action& action) const {
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && !is_input_backward(action.kind)) return std::nullopt;
    const Action send{forward ? ActionKind::send_forward : ActionKind::send_backward, action.stage,
                      action.micro_batch};
    const int peer = peer_stage(send);
    if (peer < 0 || peer >= static_cast<int>(rank_of_stage_.size()) ||
        rank_of(peer) == rank_of(action.stage))
      return std::nullopt;
    return TransferKey{times_.end_of(action), !forward, send};
  }

  /// What is received before this is received before or in the course of the slot.
  TransferKey bound_of(const ActionSlot& slot) const {
    for (const Action& action : slot.actions())
      if (const auto key = key_of(action)) return *key;
    return {times_.end_of(slot.actions()[0]), false, {}};
  }

  ActionOrder order_of(std::size_t rank) const {
    ActionOrder order;
    auto next = receives_[rank].begin();
    for (const ActionSlot& slot : orders_[rank]) {
      if (slot.idle()) continue;
      const auto receive_before = [&](const TransferKey& bound) {
        for (; next != receives_[rank].end() && *next < bound; ++next)
          order.emplace_back(receive_of(next->send));
      };
      receive_before(bound_of(slot));
      order.push_back(slot);
      for (const Action& action : slot.actions()) {
        const auto key = key_of(action);
        if (!key) continue;
        receive_before(*key);
        order.emplace_back(key->send);
      }
    }
    return order;
  }

  std::vector<int> rank_of_stage_;
  std::vector<ActionOrder> orders_;
  UnitTimes times_;
  std::vector<std::vector<TransferKey>> receives_;  ///< by rank
};

}  // namespace

std::vector<ActionOrder> transfer_orders(const PipelineSetup& setup) {
  check_counts(setup);
  return TransferPass(setup).orders();
}

}  // namespace shardscope
