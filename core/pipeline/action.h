// Actions of a pipeline schedule, as torch.distributed.pipelining names and writes them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

enum class ActionKind : std::uint8_t {
  forward,
  backward_input,
  backward_weight,
  full_backward,
  unshard,
  reshard,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  wait_send_forward,
  wait_send_backward,
  reduce_grad,
  wait_reduce_grad
};
inline constexpr int action_kind_count = 14;
/// PyTorch's text: "F", "I", "W", "B", "SEND_F".
std::string_view name_of(ActionKind kind);
/// forward to full_backward
bool is_compute(ActionKind kind);
/// Computes the gradient of the stage's input: full_backward, backward_input.
bool is_input_backward(ActionKind kind);
/// Ends the gradient of the stage's weights for a micro-batch: full_backward, backward_weight.
bool ends_weight_gradient(ActionKind kind);
bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);
bool is_wait_send(ActionKind kind);

/// What a stage does for one micro-batch.
struct Action {
  /// unshard, reshard, reduce_grad and wait_reduce_grad are for all micro-batches.
  static constexpr int all_micro_batches = -1;

  ActionKind kind = ActionKind::forward;
  int stage = 0;
  int micro_batch = all_micro_batches;
  auto operator<=>(const Action&) const = default;
};
/// "3F0", "0UNSHARD"
std::string text_of(const Action& action);

/// One place in a rank's order: nothing (the rank idles), one action, or a forward and a backward
/// that overlap.
class ActionSlot {
 public:
  ActionSlot() = default;
  ActionSlot(Action action) : actions_{action, {}}, count_(1) {}  // NOLINT: mostly one action
  ActionSlot(Action forward, Action backward) : actions_{forward, backward}, count_(2) {}

  bool idle() const { return count_ == 0; }
  bool overlapped() const { return count_ == 2; }
  std::span<const Action> actions() const { return {actions_.data(), count_}; }
  bool operator==(const ActionSlot&) const = default;

 private:
  std::array<Action, 2> actions_{};
  std::size_t count_ = 0;
};
/// "", "3F0", "(0F4;7B1)OVERLAP_F_B"
std::string text_of(const ActionSlot& slot);

using ActionOrder = std::vector<ActionSlot>;  ///< of one rank

/// Where an action's tensor comes from or goes to.
bool is_of_gradient(ActionKind kind);
/// The stage at the other end of a send or receive.
int peer_stage(const Action& action);
/// The receive that takes what `send` sends.
Action receive_of(const Action& send);
/// The wait that ends `send`.
Action wait_of(const Action& send);
/// The send that `wait` ends.
Action send_of(const Action& wait);

}  // namespace shardscope
