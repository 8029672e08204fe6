#include "core/pytorch/parallel/stage_module.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/pytorch/engine/pointwise.h"

namespace shardscope::eager::parallel {
namespace {

/// _state_ctx.all_states: in the order of modules(), the root's first.
std::vector<fsdp2::State*> states_of(const fsdp2::FullySharded& sharded, Module& module) {
  std::vector<fsdp2::State*> states;
  for (const Module* each : modules_of(module)) {
    fsdp2::State* state = sharded.state_of(*each);
    if (state && std::ranges::find(states, state) == states.end()) states.push_back(state);
  }
  return states;
}

/// FSDPModule.finalize_backward(async_op=True): the gradients of all groups, the last one's first
/// and the root's at the end.
void reduce_gradients_of(Session& s, const std::vector<fsdp2::State*>& states) {
  for (auto state = states.rbegin(); state != states.rend(); ++state) {
    const auto& groups = (*state)->groups();
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      (*group)->post_backward(s);
      (*group)->set_training_state(fsdp2::TrainingState::idle);
    }
  }
}

/// FSDPState.wait_for_gradient_reduction.
void wait_for_gradients_of(Session& s, const fsdp2::FullySharded& sharded,
                           const fsdp2::State& root) {
  fsdp2::CommContext& comm = root.comm();
  comm.wait_for_reductions(s);
  for (const auto& state : sharded.states())
    for (const auto& group : state->groups()) group->finalize_backward(s);
  comm.release_all_gather_on_current_stream(s);
  comm.post_forward_order.clear();
  comm.release_reduce_scatter_inputs(s);
}

}  // namespace

StageModule::StageModule(Session& s, Module& module, fsdp2::FullySharded* sharded,
                         ddp::DistributedDataParallel* replicated, int grad_scale_factor)
    : s_(s),
      module_(module),
      sharded_(sharded),
      replicated_(replicated),
      grad_scale_factor_(grad_scale_factor) {
  // set_manual_backward_finalization: no backward waits for reductions.
  if (sharded_) root().set_is_last_backward(false);
}

Tensors StageModule::parameters() const {
  Tensors all;
  for (const NamedParameter& named : named_parameters_of(module_)) all.push_back(named.tensor());
  return all;
}

Tensor StageModule::forward(const Tensor& input, const Tensors& more) {
  Arguments arguments{input};
  arguments.tensors.insert(arguments.tensors.end(), more.begin(), more.end());
  if (!replicated_) return call_one(s_, module_, std::move(arguments));
  const ddp::DistributedDataParallel::NoSync no_sync(*replicated_);
  return call_one(s_, *replicated_->module(), std::move(arguments));
}

void StageModule::backward(bool last, const std::function<void()>& run) {
  std::optional<ddp::DistributedDataParallel::NoSync> no_sync;
  if (replicated_ && last) replicated_->prepare_for_backward();
  if (replicated_ && !last) no_sync.emplace(*replicated_);
  if (sharded_)
    sharded_->set(module_, [](fsdp2::GroupSwitches& switches) {
      switches.reshard_after_backward = false;
      switches.reduce_grads = switches.all_reduce_grads = false;
    });
  run();
}

void StageModule::unshard() {
  for (Module* each : modules_of(module_))
    if (sharded_ && sharded_->state_of(*each)) sharded_->unshard(*each, true);
}

void StageModule::wait_for_unshard() {
  for (Module* each : modules_of(module_))
    if (sharded_ && sharded_->state_of(*each)) sharded_->wait_for_unshard(*each);
}

void StageModule::reshard() {
  for (Module* each : modules_of(module_))
    if (sharded_ && sharded_->state_of(*each)) sharded_->reshard(*each);
}

void StageModule::start_reduction() {
  if (!sharded_) return scale_gradients();
  sharded_->set(module_, [](fsdp2::GroupSwitches& switches) {
    switches.reshard_after_backward = true;
    switches.reduce_grads = switches.all_reduce_grads = true;
  });
  reduce_gradients_of(s_, states_of(*sharded_, module_));
}

void StageModule::end_reduction() {
  if (!sharded_) return;
  wait_for_gradients_of(s_, *sharded_, root());
  scale_gradients();
}

void StageModule::scale_gradients() {
  if (grad_scale_factor_ == 1) return;
  const NoGrad no_grad(s_);
  for (const Tensor& parameter : parameters())
    if (parameter.grad().defined()) div_(s_, parameter.grad(), Number(grad_scale_factor_));
}

}  // namespace shardscope::eager::parallel
