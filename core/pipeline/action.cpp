#include "core/pipeline/action.h"

#include <fmt/format.h>

namespace shardscope {
namespace {

constexpr std::array<std::string_view, action_kind_count> names{
    "F",      "I",      "W",      "B",           "UNSHARD",     "RESHARD",     "SEND_F",
    "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};

}  // namespace

std::string_view name_of(ActionKind kind) { return names[static_cast<std::size_t>(kind)]; }

bool is_compute(ActionKind kind) { return kind <= ActionKind::full_backward; }

bool is_input_backward(ActionKind kind) {
  return kind == ActionKind::full_backward || kind == ActionKind::backward_input;
}

bool ends_weight_gradient(ActionKind kind) {
  return kind == ActionKind::full_backward || kind == ActionKind::backward_weight;
}

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}

bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward;
}

bool is_wait_send(ActionKind kind) {
  return kind == ActionKind::wait_send_forward || kind == ActionKind::wait_send_backward;
}

std::string text_of(const Action& action) {
  std::string text = fmt::format("{}{}", action.stage, name_of(action.kind));
  if (action.micro_batch != Action::all_micro_batches) text += std::to_string(action.micro_batch);
  return text;
}

std::string text_of(const ActionSlot& slot) {
  if (slot.idle()) return {};
  if (!slot.overlapped()) return text_of(slot.actions()[0]);
  return fmt::format("({};{})OVERLAP_F_B", text_of(slot.actions()[0]), text_of(slot.actions()[1]));
}

bool is_of_gradient(ActionKind kind) {
  return kind == ActionKind::send_backward || kind == ActionKind::receive_backward ||
         kind == ActionKind::wait_send_backward;
}

int peer_stage(const Action& action) {
  const bool towards_last = is_of_gradient(action.kind) != is_send(action.kind);
  return towards_last ? action.stage + 1 : action.stage - 1;
}

Action receive_of(const Action& send) {
  return {is_of_gradient(send.kind) ? ActionKind::receive_backward : ActionKind::receive_forward,
          peer_stage(send), send.micro_batch};
}

Action wait_of(const Action& send) {
  return {
      is_of_gradient(send.kind) ? ActionKind::wait_send_backward : ActionKind::wait_send_forward,
      send.stage, send.micro_batch};
}

Action send_of(const Action& wait) {
  return {is_of_gradient(wait.kind) ? ActionKind::send_backward : ActionKind::send_forward,
          wait.stage, wait.micro_batch};
}

}  // namespace shardscope
