#include "core/pytorch/parallel/multi_stage_run.h"

#include <utility>

#include "core/pipeline/pipeline_schedule.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

/// Python's dict.pop(key, None).
Tensor popped(std::map<std::pair<int, int>, Tensor>& tensors, int stage, int micro_batch) {
  auto found = tensors.extract({stage, micro_batch});
  return found.empty() ? Tensor() : std::move(found.mapped());
}

}  // namespace

MultiStageRun::MultiStageRun(Session& s, const PipelineSetup& setup, const ProcessGroup& group,
                             std::vector<StageSetup> stages, StageLoss loss)
    : s_(s),
      setup_(setup),
      rank_of_stage_(rank_of_stages(setup)),
      order_(lowered_schedule(setup).lowered[static_cast<std::size_t>(group.rank)]),
      channel_(s, group),
      loss_(std::move(loss)) {
  for (StageSetup& stage : stages) {
    const int index = stage.index;
    stages_.try_emplace(index, s_, std::move(stage));
  }
}

void MultiStageRun::post_send(const Action& action) {
  const bool forward = action.kind == ActionKind::send_forward;
  const Tensor tensor = forward ? stages_.at(action.stage).output_of(action.micro_batch)
                                : popped(input_gradients_, action.stage, action.micro_batch);
  channel_.post_send(sends_[action], tensor, peer_of(action));
}

void MultiStageRun::post_receive(const Action& action) {
  TransferBatch& batch = receives_[action];
  batch.transfers.push_back({stages_.at(action.stage).receive_buffer(), peer_of(action), false});
  channel_.post(batch);
}

void MultiStageRun::end_send(const Action& wait) {
  auto sent = sends_.extract(send_of(wait));
  channel_.wait(sent.mapped());
  if (wait.kind == ActionKind::wait_send_forward)
    stages_.at(wait.stage).release_output(wait.micro_batch);
}

void MultiStageRun::unshard(int stage) {
  if (!stages_.at(stage).module().is_sharded()) return;
  stages_.at(stage).module().unshard();
  gathering_.insert(stage);
}

/// A stage whose gradients are being reduced has let its parameters go with that.
void MultiStageRun::reshard(int stage) {
  if (finalized_.erase(stage) > 0 || !stages_.at(stage).module().is_sharded()) return;
  stages_.at(stage).module().reshard();
}

void MultiStageRun::wait_for_unshard(int stage) {
  if (gathering_.erase(stage) > 0) stages_.at(stage).module().wait_for_unshard();
}

void MultiStageRun::start_reduction(int stage) {
  StageModule& module = stages_.at(stage).module();
  module.start_reduction();
  if (module.is_sharded()) finalized_.insert(stage);
}

Tensor MultiStageRun::take_received(ActionKind kind, const Action& action) {
  auto received = receives_.extract({kind, action.stage, action.micro_batch});
  if (received.empty()) {
    const bool forward = kind == ActionKind::receive_forward;
    return popped(forward ? local_inputs_ : local_gradients_, action.stage, action.micro_batch);
  }
  Tensor tensor = received.mapped().transfers.front().tensor;
  channel_.wait(received.mapped());
  return tensor;
}

void MultiStageRun::forward(const Action& action, const Tensors& micro_batches,
                            const StageWatcher& watch) {
  const auto [kind, index, micro_batch] = action;
  Stage& stage = stages_.at(index);
  wait_for_unshard(index);
  const Tensor input = stage.is_first() ? micro_batches[static_cast<std::size_t>(micro_batch)]
                                        : take_received(ActionKind::receive_forward, action);
  const Tensor output = stage.forward(input, micro_batch, watch);
  if (stage.is_last()) losses_.push_back(loss_(s_, output, micro_batch));
  if (is_here(index + 1)) local_inputs_[{index + 1, micro_batch}] = detach(s_, output);
}

void MultiStageRun::backward(const Action& action, const StageWatcher& watch) {
  const auto [kind, index, micro_batch] = action;
  Stage& stage = stages_.at(index);
  wait_for_unshard(index);
  const bool ends_weights = ends_weight_gradient(kind);
  const bool last = ends_weights && ++backwards_[index] == setup_.micro_batches;
  if (kind == ActionKind::backward_weight)
    return stage.backward_for_weights(micro_batch, last, watch);
  const Stage::BackwardInput given{
      .loss = stage.is_last() ? losses_[static_cast<std::size_t>(micro_batch)] : Tensor(),
      .gradient = take_received(ActionKind::receive_backward, action),
      .last = last};
  Tensor gradient = ends_weights ? stage.backward(given, micro_batch, watch)
                                 : stage.backward_for_input(given, micro_batch, watch);
  if (stage.is_first()) return;
  if (is_here(index - 1))
    local_gradients_[{index - 1, micro_batch}] = std::move(gradient);
  else
    input_gradients_[{index, micro_batch}] = std::move(gradient);
}

void MultiStageRun::perform(const Action& action, const Tensors& micro_batches,
                            const StageWatcher& watch) {
  switch (action.kind) {
    case ActionKind::forward:
      return forward(action, micro_batches, watch);
    case ActionKind::backward_input:
    case ActionKind::backward_weight:
    case ActionKind::full_backward:
      return backward(action, watch);
    case ActionKind::unshard:
      return unshard(action.stage);
    case ActionKind::reshard:
      return reshard(action.stage);
    case ActionKind::send_forward:
    case ActionKind::send_backward:
      return post_send(action);
    case ActionKind::receive_forward:
    case ActionKind::receive_backward:
      return post_receive(action);
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
      return end_send(action);
    case ActionKind::reduce_grad:
      return start_reduction(action.stage);
    case ActionKind::wait_reduce_grad:
      return stages_.at(action.stage).module().end_reduction();
  }
}

void MultiStageRun::step(const Tensors& micro_batches, const StageWatcher& watch) {
  for (auto& [index, stage] : stages_) stage.clear_outputs();
  channel_.connect(rank_of_stage_);
  backwards_.clear();
  finalized_.clear();
  for (const ActionSlot& slot : order_)
    for (const Action& action : slot.actions()) perform(action, micro_batches, watch);
  losses_.clear();
  for (auto& [index, stage] : stages_) stage.merge_outputs();
}

}  // namespace shardscope::eager::parallel
