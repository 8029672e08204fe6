#include "core/pytorch/runtimes/fsdp2/state.h"

#include <algorithm>

#include "core/base/refusal.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/fsdp2/visiting.h"

namespace shardscope::eager::fsdp2 {
namespace {

void cast_floating(Session& s, Tensors& tensors, Dtype dtype) {
  for (Tensor& tensor : tensors)
    if (tensor.defined() && tensor.is_floating_point() && tensor.dtype() != dtype)
      tensor = to(s, tensor, dtype);
}

}  // namespace

State::State(std::vector<Module*> modules, const MixedPrecisionPolicy& policy,
             bool automatic_reshard, std::shared_ptr<CommContext> comm, StateOf state_of)
    : modules_(std::move(modules)),
      policy_(policy),
      automatic_reshard_(automatic_reshard),
      comm_(std::move(comm)),
      state_of_(std::move(state_of)) {
  register_hooks();
}

void State::set_groups(std::vector<std::unique_ptr<ParameterGroup>> groups) {
  groups_ = std::move(groups);
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i]->set_place(i, groups_.size());
}

void State::register_hooks() {
  const bool several = modules_.size() > 1;
  for (Module* module : modules_) {
    auto& before = module->forward_pre_hooks;
    before.insert(before.begin(), [this, several](Session& s, Module&, Arguments& arguments) {
      if (several && modules_to_run_.empty()) modules_to_run_ = modules_;
      pre_forward(s, arguments);
    });
    module->forward_hooks.push_back(
        [this, several](Session& s, Module& called, const Arguments&, Tensors& outputs) {
          if (!several) return post_forward(s, outputs);
          const auto at = std::find(modules_to_run_.begin(), modules_to_run_.end(), &called);
          if (at != modules_to_run_.end()) {
            modules_to_run_.erase(at);
            if (modules_to_run_.empty()) return post_forward(s, outputs);
          }
          cast_outputs(s, outputs);
        });
  }
}

void State::root_pre_forward(Session& s, Arguments& arguments) {
  lazy_init(s);
  if (context_->iter_forward_root) return;
  context_->iter_forward_root = this;
  const RecordFunction record(s);
  const Streams& streams = *comm_->streams();
  s.wait_stream(streams.copy_in, s.stream);
  s.wait_stream(streams.all_gather, s.stream);
  if (s.settings.device == Device::cpu || arguments.tensors.empty()) return;
  const RecordFunction record_move(s);
  for (Tensor& tensor : arguments.tensors)
    if (tensor.defined()) tensor = to(s, tensor, {.device = s.settings.device});
}

void State::lazy_init(Session& s) {
  if (is_initialized_) return;
  const Visiting visiting(s, comm_->watchers(), *this, Site::lazy_init);
  if (modules_.size() > 1)
    throw Refusal("RuntimeError", {.where = modules_.front()->name,
                                   .what = "FSDP requires a single root module but got a list",
                                   .way_out = "call fully_shard on the whole model last"});
  for (Module* module : modules_of(*modules_.front())) {
    State* state = state_of_(*module);
    auto& known = context_->all_states;
    if (!state || std::find(known.begin(), known.end(), state) != known.end()) continue;
    if (state != this && state->is_initialized_)
      throw Refusal("RuntimeError",
                    {.where = module->name,
                     .what = "FSDP state has already been lazily initialized; FSDP requires "
                             "running forward through the root module first",
                     .way_out = "run the whole model's forward first"});
    state->is_initialized_ = true;
    known.push_back(state);
  }
  if (automatic_reshard_)
    for (const auto& group : groups_) group->set_post_forward_mesh(nullptr);
  comm_->lazy_init(s);
  comm_->reduce_scatter_max_input_buffers = 1;
  for (State* state : context_->all_states) {
    state->context_ = context_;
    state->comm_ = comm_;
    for (const auto& group : state->groups_) {
      group->share(comm_);
      comm_->reduce_scatter_max_input_buffers =
          std::max(comm_->reduce_scatter_max_input_buffers,
                   group->switches.reduce_scatter_max_input_buffers);
    }
  }
  for (State* state : context_->all_states)
    for (const auto& group : state->groups_) group->lazy_init(s);
}

void State::cast_inputs(Session& s, Arguments& arguments) const {
  if (!policy_.cast_forward_inputs || !policy_.param_dtype) return;
  const RecordFunction record(s);
  cast_floating(s, arguments.tensors, *policy_.param_dtype);
}

void State::cast_outputs(Session& s, Tensors& outputs) const {
  if (!policy_.output_dtype) return;
  const RecordFunction record(s);
  cast_floating(s, outputs, *policy_.output_dtype);
}

void State::pre_forward(Session& s, Arguments& arguments) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::state_pre_forward);
  if (training_state_ == TrainingState::pre_backward) {  // a checkpoint recomputes
    for (const auto& group : groups_) {
      if (group->is_unsharded()) continue;
      group->unshard(s);
      group->wait_for_unshard(s);
    }
    return cast_inputs(s, arguments);
  }
  const bool is_first = training_state_ != TrainingState::forward;
  training_state_ = TrainingState::forward;
  if (is_first) root_pre_forward(s, arguments);
  cast_inputs(s, arguments);
  for (const auto& group : groups_) group->pre_forward(s, arguments);
  if (!is_first) return;
  for (State* target : forward_prefetch)
    for (const auto& group : target->groups_) group->prefetch(s, ParameterGroup::Pass::forward);
}

void State::post_forward(Session& s, Tensors& outputs) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::state_post_forward);
  if (training_state_ == TrainingState::pre_backward) return cast_outputs(s, outputs);
  for (const auto& group : groups_) group->post_forward(s);
  register_pre_backward_hook(s, outputs);
  training_state_ = TrainingState::idle;
  if (context_->iter_forward_root == this) {
    complete_partial_groups(s, outputs);
    comm_->release_all_gather_for_reuse(s);
    context_->iter_forward_root = nullptr;
  }
  cast_outputs(s, outputs);
}

/// _force_complete_incomplete_states: of a list, modules that forward left out.
void State::complete_partial_groups(Session& s, Tensors& outputs) {
  for (auto at = context_->all_states.rbegin(); at != context_->all_states.rend(); ++at) {
    State& state = **at;
    if (&state == this || state.modules_to_run_.empty()) continue;
    for (const auto& group : state.groups_) group->post_forward(s);
    state.register_pre_backward_hook(s, outputs);
    state.training_state_ = TrainingState::idle;
    state.cast_outputs(s, outputs);
    state.modules_to_run_.clear();
  }
}

void State::register_pre_backward_hook(Session& s, const Tensors& outputs) {
  if (!s.grad_enabled) return;
  for (const Tensor& output : outputs)
    if (output.defined() && output.requires_grad())
      register_hook(s, output, [this](Session& session, const Tensor& gradient) {
        pre_backward(session);
        return gradient;
      });
}

void State::pre_backward(Session& s) {
  training_state_ = TrainingState::pre_backward;
  if (!context_->final_callback_queued) {
    context_->final_callback_queued = true;
    queue_callback(s, [this](Session& session) { final_callback(session); });
  }
  if (!groups_.empty()) {
    const Visiting visiting(s, comm_->watchers(), *this, Site::state_pre_backward);
    for (const auto& group : groups_) group->pre_backward(s, backward_prefetch.empty());
  }
  for (State* target : backward_prefetch)
    for (auto group = target->groups_.rbegin(); group != target->groups_.rend(); ++group)
      (*group)->prefetch(s, ParameterGroup::Pass::backward);
}

void State::final_callback(Session& s) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::final_callback);
  const RecordFunction record(s);
  context_->iter_forward_root = nullptr;
  for (State* state : context_->all_states) {
    state->modules_to_run_.clear();
    for (auto group = state->groups_.rbegin(); group != state->groups_.rend(); ++group) {
      if ((*group)->training_state() != TrainingState::post_backward) (*group)->post_backward(s);
      (*group)->set_training_state(TrainingState::idle);
    }
    state->training_state_ = TrainingState::idle;
  }
  if (context_->is_last_backward)
    end_backward_iteration(s);
  else
    comm_->release_all_gather_on_current_stream(s);
  context_->final_callback_queued = false;
}

void State::end_backward_iteration(Session& s) {
  comm_->wait_for_reductions(s);
  for (State* state : context_->all_states)
    for (const auto& group : state->groups_) group->finalize_backward(s);
  comm_->release_all_gather_on_current_stream(s);
  comm_->post_forward_order.clear();
  comm_->release_reduce_scatter_inputs(s);
}

}  // namespace shardscope::eager::fsdp2
