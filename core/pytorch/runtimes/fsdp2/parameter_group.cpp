#include "core/pytorch/runtimes/fsdp2/parameter_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/fsdp2/visiting.h"

namespace shardscope::eager::fsdp2 {

ParameterGroup::ParameterGroup(Session& s, std::vector<Module*> modules, Parameters parameters,
                               MeshInfoRef mesh, MeshInfoRef post_forward_mesh,
                               std::shared_ptr<CommContext> comm)
    : modules_(std::move(modules)),
      parameters_(std::move(parameters)),
      mesh_(std::move(mesh)),
      post_forward_mesh_(std::move(post_forward_mesh)),
      comm_(std::move(comm)) {
  // FSDPParamGroup._all_gather_output, which a group of one rank hands on as its result.
  empty_output_ = empty(s, {0}, {.dtype = Dtype::float32, .device = s.settings.device});
}

void ParameterGroup::lazy_init(Session& s) {
  if (sharded_state_ == ShardedState::sharded && !has_reset_sharded_params_) {
    for (const auto& p : parameters_) p->reset_sharded_param(s);
    has_reset_sharded_params_ = true;
  }
  const Parameter* trainable = nullptr;
  for (const auto& p : parameters_) {
    p->init_dtypes();
    if (!p->sharded_param().requires_grad()) continue;
    if (trainable && trainable->original_dtype() != p->original_dtype())
      throw Refusal(
          "AssertionError",
          {.where = p->name(),
           .what = fmt::format("FSDP expects uniform original parameter dtype but got {} "
                               "and {}",
                               name_of(trainable->original_dtype()), name_of(p->original_dtype())),
           .way_out = "put them in groups of their own"});
    trainable = p.get();
  }
}

const ProcessGroup& ParameterGroup::all_gather_group() const {
  return sharded_state_ == ShardedState::sharded_post_forward ? *post_forward_mesh_->shard
                                                              : *mesh_->shard;
}

void ParameterGroup::unshard(Session& s, bool asynchronous) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::unshard);
  if (all_gather_result_ || is_unsharded()) return;
  if (!switches.unshard_in_backward && training_state_ == TrainingState::pre_backward) return;
  if (reshard_after_forward_event_)
    comm_->wait_all_gather_streams_on(s,
                                      *std::exchange(reshard_after_forward_event_, std::nullopt));
  if (all_gather_group().size() == 1) {
    all_gather_result_ =
        AllGatherResult{.output = empty_output_, .event = s.record_event(s.stream)};
    return;
  }
  const RecordFunction record(s);
  all_gather_result_ = all_gather(s, parameters_, all_gather_group(), asynchronous,
                                  comm_->all_gather_streams(s, asynchronous, training_state_));
}

Tensor ParameterGroup::wait_alone(Session& s) {
  Tensor input;
  for (const auto& p : parameters_) {
    input = p->all_gather_input(s);
    p->init_gathered(s, input.numel(), input.dtype(), 1);
    p->alloc_gathered();
    copy_(s, p->gathered(), input);
  }
  return input;
}

void ParameterGroup::wait_for_unshard(Session& s) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::wait_for_unshard);
  if (!all_gather_result_) return;
  const bool in_forward = training_state_ == TrainingState::forward;
  if (in_forward) comm_->release_all_gather_for_reuse(s);
  const bool alone = all_gather_group().size() == 1;
  Tensor last_input;
  if (alone) {
    last_input = wait_alone(s);
  } else {
    const RecordFunction record(s);
    copy_out(s, *all_gather_result_, parameters_, all_gather_group());
  }
  for (const auto& p : parameters_) p->init_unsharded_param(s);
  to_unsharded();
  const EventId copied_out = s.record_event(s.stream);
  if (!all_gather_result_->work && in_forward && !alone)
    comm_->all_gather_state = AllGatherState{*all_gather_result_, copied_out};
  else
    comm_->wait_all_gather_streams_on(s, copied_out);
  all_gather_result_.reset();
}

void ParameterGroup::reshard(Session& s) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::reshard);
  if (training_state_ == TrainingState::forward) {
    if (!reshards_after_forward()) return;
    if (post_forward_mesh_ != mesh_) {
      to_sharded_post_forward(s);
      reshard_after_forward_event_ = s.record_event(s.stream);
      return;
    }
  }
  to_sharded();
}

void ParameterGroup::pre_forward(Session& s, Arguments& arguments) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::pre_forward);
  const RecordFunction record(s);
  const bool enters_pass = training_state_ != TrainingState::forward;
  training_state_ = TrainingState::forward;
  unshard(s, switches.unshard_async_op);
  wait_for_unshard(s);
  if (enters_pass) register_post_backward_hook(s, arguments);
}

void ParameterGroup::post_forward(Session& s) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::post_forward);
  const RecordFunction record(s);
  if (!s.engine().running()) {
    reshard(s);
    post_forward_indices_.push_back(comm_->post_forward_order.size());
    comm_->post_forward_order.push_back(this);
  }
  training_state_ = TrainingState::idle;
}

void ParameterGroup::pre_backward(Session& s, bool default_prefetch) {
  if (training_state_ == TrainingState::pre_backward) return;
  const Visiting visiting(s, comm_->watchers(), *this, Site::pre_backward);
  const RecordFunction record(s);
  training_state_ = TrainingState::pre_backward;
  unshard(s, switches.unshard_async_op);
  wait_for_unshard(s);
  set_unsharded_grad_dtypes(s, true);
  if (default_prefetch) backward_prefetch(s);
}

void ParameterGroup::backward_prefetch(Session& s) {
  if (post_forward_indices_.empty()) return;  // several backwards of one forward
  const std::size_t index = post_forward_indices_.back();
  post_forward_indices_.pop_back();
  if (groups_ > 1) return prefetch_modules_before(s, index);
  if (index > 0) comm_->post_forward_order[index - 1]->prefetch(s, Pass::backward);
}

void ParameterGroup::prefetch_modules_before(Session& s, std::size_t index) {
  if (place_ != 1) return;
  const std::vector<Module*>* modules = nullptr;
  for (std::size_t step = 1; step <= index; ++step) {
    ParameterGroup& target = *comm_->post_forward_order[index - step];
    if (target.modules_ == modules_) continue;
    if (modules == nullptr) modules = &target.modules_;
    if (target.modules_ != *modules) break;
    target.prefetch(s, Pass::backward);
  }
}

void ParameterGroup::prefetch(Session& s, Pass pass) {
  const bool forward = pass == Pass::forward;
  const Visiting visiting(s, comm_->watchers(), *this,
                          forward ? Site::forward_prefetch : Site::backward_prefetch);
  const RecordFunction record(s);
  const Scoped state(training_state_,
                     forward ? TrainingState::forward : TrainingState::pre_backward);
  unshard(s, switches.unshard_async_op);
}

void ParameterGroup::register_post_backward_hook(Session& s, Arguments& arguments) {
  if (!s.grad_enabled) return;
  Tensors inputs;
  for (const Tensor& tensor : arguments.tensors)
    if (tensor.defined() && tensor.requires_grad()) inputs.push_back(tensor);
  if (inputs.empty()) return;
  const Tensors outputs = apply_function(
      s, "RegisterPostBackwardFunctionBackward", inputs,
      [&](Session&, const NodeRef&) { return inputs; },
      [this](Session& session, Node&, Tensors& gradients) {
        post_backward(session);
        return gradients;
      });
  auto next = outputs.begin();
  for (Tensor& tensor : arguments.tensors)
    if (tensor.defined() && tensor.requires_grad()) tensor = *next++;
}

void ParameterGroup::to_sharded() {
  if (sharded_state_ == ShardedState::sharded) return;
  for (const auto& p : parameters_) p->to_sharded();
  sharded_state_ = ShardedState::sharded;
}

void ParameterGroup::to_sharded_post_forward(Session& s) {
  if (sharded_state_ == ShardedState::sharded_post_forward) return;
  for (const auto& p : parameters_) p->to_sharded_post_forward(s);
  sharded_state_ = ShardedState::sharded_post_forward;
}

void ParameterGroup::to_unsharded() {
  if (is_unsharded()) return;
  for (const auto& p : parameters_) p->to_unsharded();
  sharded_state_ = ShardedState::unsharded;
}

}  // namespace shardscope::eager::fsdp2
