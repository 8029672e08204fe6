// The limit on sends under way (PyTorch's max_outstanding_sends).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/refusal.h"
#include "core/pipeline/lowering.h"

namespace shardscope {
namespace {

/// What must come before what: nodes are the actions of all ranks that cannot be moved (all but
/// waits), edges are counted.
class DependencyGraph {
 public:
  explicit DependencyGraph(std::size_t nodes) : edges_(nodes) {}

  void add(std::size_t from, std::size_t to) { ++edges_[from][to]; }
  void remove(std::size_t from, std::size_t to) {
    const auto edge = edges_[from].find(to);
    if (--edge->second == 0) edges_[from].erase(edge);
  }
  bool reaches(std::size_t from, std::size_t to) const {
    std::vector<bool> seen(edges_.size(), false);
    std::vector<std::size_t> open{from};
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      if (node == to) return true;
      if (seen[node]) continue;
      seen[node] = true;
      for (const auto& [next, count] : edges_[node]) open.push_back(next);
    }
    return false;
  }

 private:
  std::vector<std::map<std::size_t, int>> edges_;
};

/// One send: where its receive is, and before which action of its rank it is waited for.
struct LimitedSend {
  std::size_t receive = 0;
  std::optional<std::size_t> wait_before;  ///< none: at the end
  bool moved = false;
};

/// The node of every action that is no wait, numbered through all ranks.
using Nodes = std::vector<std::vector<std::size_t>>;

class SendLimit {
 public:
  SendLimit(const std::vector<ActionOrder>& orders, int most)
      : orders_(orders), most_(static_cast<std::size_t>(most)), graph_(number_nodes()) {
    find_transfers();
    add_edges();
  }

  std::vector<ActionOrder> limited() && {
    std::vector<ActionOrder> result;
    for (std::size_t rank = 0; rank < orders_.size(); ++rank) result.push_back(limited(rank));
    return result;
  }

 private:
  std::size_t number_nodes() {
    std::size_t count = 0;
    for (const ActionOrder& order : orders_) {
      nodes_.emplace_back();
      for (const ActionSlot& slot : order) {
        const bool waits = is_wait_send(slot.actions()[0].kind);
        nodes_.back().push_back(waits ? 0 : count++);
      }
    }
    return count;
  }

  void find_transfers() {
    std::map<Action, std::size_t> receives;
    for (std::size_t rank = 0; rank < orders_.size(); ++rank)
      for (std::size_t i = 0; i < orders_[rank].size(); ++i)
        if (const Action& action = orders_[rank][i].actions()[0]; is_receive(action.kind))
          receives[action] = nodes_[rank][i];
    for (const ActionOrder& order : orders_)
      for (const ActionSlot& slot : order)
        if (const Action& action = slot.actions()[0]; is_send(action.kind))
          transfers_[action].receive = receives.at(receive_of(action));
  }

  void add_edges() {
    for (std::size_t rank = 0; rank < orders_.size(); ++rank) {
      std::optional<std::size_t> next;
      for (std::size_t i = orders_[rank].size(); i-- > 0;) {
        const Action& action = orders_[rank][i].actions()[0];
        if (is_wait_send(action.kind)) {
          LimitedSend& transfer = transfers_.at(send_of(action));
          transfer.wait_before = next;
          if (next) graph_.add(transfer.receive, *next);
          continue;
        }
        const std::size_t node = nodes_[rank][i];
        if (next) graph_.add(node, *next);
        if (is_send(action.kind)) graph_.add(node, transfers_.at(action).receive);
        next = node;
      }
    }
  }

  ActionOrder limited(std::size_t rank) {
    ActionOrder result;
    std::vector<Action> pending;
    for (std::size_t i = 0; i < orders_[rank].size(); ++i) {
      const Action& action = orders_[rank][i].actions()[0];
      if (is_wait_send(action.kind)) {
        const Action send = send_of(action);
        if (std::exchange(transfers_.at(send).moved, false)) continue;
        std::erase(pending, send);
      }
      if (is_send(action.kind)) {
        while (pending.size() >= most_) {
          const Action send = ended_first(pending, nodes_[rank][i], rank, action);
          std::erase(pending, send);
          move_wait(send, nodes_[rank][i]);
          result.emplace_back(wait_of(send));
        }
        pending.push_back(action);
      }
      result.push_back(orders_[rank][i]);
    }
    return result;
  }

  /// The oldest send whose receive comes before `node` in any case, else the oldest that may be
  /// waited for there at all.
  Action ended_first(const std::vector<Action>& pending, std::size_t node, std::size_t rank,
                     const Action& next) {
    std::optional<Action> stalling;
    for (const Action& send : pending) {
      const LimitedSend& transfer = transfers_.at(send);
      if (transfer.wait_before) graph_.remove(transfer.receive, *transfer.wait_before);
      const bool safe = !graph_.reaches(node, transfer.receive);
      const bool ended = safe && graph_.reaches(transfer.receive, node);
      if (transfer.wait_before) graph_.add(transfer.receive, *transfer.wait_before);
      if (ended) return send;
      if (safe && !stalling) stalling = send;
    }
    if (stalling) return *stalling;
    refuse(pending, rank, next);
  }

  [[noreturn]] void refuse(const std::vector<Action>& pending, std::size_t rank,
                           const Action& next) const {
    std::string outstanding;
    for (const Action& send : pending)
      outstanding += fmt::format("{}{}", outstanding.empty() ? "" : ", ", text_of(send));
    throw Refusal(
        "ValueError",
        fmt::format("Cannot satisfy max_outstanding_sends={} on pipeline rank {} before {}. "
                    "Outstanding: [{}]. Increase the limit or change the schedule.",
                    most_, rank, text_of(next), outstanding));
  }

  void move_wait(const Action& send, std::size_t node) {
    LimitedSend& transfer = transfers_.at(send);
    if (transfer.wait_before) graph_.remove(transfer.receive, *transfer.wait_before);
    graph_.add(transfer.receive, node);
    transfer.wait_before = node;
    transfer.moved = true;
  }

  const std::vector<ActionOrder>& orders_;
  std::size_t most_;
  Nodes nodes_;
  DependencyGraph graph_;
  std::map<Action, LimitedSend> transfers_;  ///< by send
};

}  // namespace

std::vector<ActionOrder> with_fewer_sends(const std::vector<ActionOrder>& orders, int most) {
  return SendLimit(orders, most).limited();
}

}  // namespace shardscope
