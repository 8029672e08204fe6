// What a parameter group does with gradients. Source: torch 2.15, _fsdp_param_group.py.
#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/fsdp2/parameter_group.h"
#include "core/pytorch/runtimes/fsdp2/visiting.h"

namespace shardscope::eager::fsdp2 {
namespace {

/// torch.promote_types of floating dtypes.
Dtype promoted(Dtype a, Dtype b) {
  if (a == b) return a;
  if (size_of(a) == size_of(b)) return Dtype::float32;  // float16 with bfloat16
  return size_of(a) > size_of(b) ? a : b;
}

bool accumulates_wider(const Parameter& p) {
  return size_of(p.unsharded_grad_dtype()) > size_of(p.compute_dtype());
}

}  // namespace

void ParameterGroup::set_unsharded_grad_dtypes(Session& s, bool defer_upcast) {
  for (const auto& p : parameters_) {
    const Tensor& param = p->unsharded_param();
    if (!accumulates_wider(*p) || !param.defined() || !param.requires_grad()) continue;
    const Dtype dtype = p->unsharded_grad_dtype();
    if (defer_upcast && !p->may_reduce_outside()) {
      if (param.grad().defined() || switches.reduce_grads) param.set_grad_dtype(std::nullopt);
      continue;
    }
    if (param.grad().defined() && param.grad().dtype() != dtype)
      param.set_grad(to(s, param.grad(), dtype));
    param.set_grad_dtype(dtype);
  }
}

void ParameterGroup::post_backward(Session& s) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::post_backward);
  const bool is_partial = modules_.size() > 1 && training_state_ == TrainingState::forward;
  training_state_ = TrainingState::post_backward;
  std::vector<Parameter*> parameters;
  Tensors gradients;
  {
    const RecordFunction record(s);
    if (switches.reduce_grads) take_gradients(s, parameters, gradients);
    set_unsharded_grad_dtypes(s, false);
    if (switches.reshard_after_backward) reshard(s);
  }
  if (!switches.reduce_grads) return;
  recycle_input_buffers(s);
  if (gradients.empty()) return;
  wait_for_post_backward(s);
  const RecordFunction record(s);
  reduce(s, std::move(parameters), std::move(gradients));
  if (is_partial) s.wait_event(s.stream, *post_reduce_event_);
}

void ParameterGroup::take_gradients(Session& s, std::vector<Parameter*>& parameters,
                                    Tensors& gradients) {
  for (const auto& p : parameters_) {
    const Tensor& param = p->unsharded_param();
    if (!param.defined()) continue;
    const bool pending = std::any_of(partial_layout_.begin(), partial_layout_.end(),
                                     [&](const auto& entry) { return entry.first == p.get(); });
    if (param.grad().defined())
      gradients.push_back(p->unsharded_gradient(s));
    else if ((partial_reduce_output_.defined() && pending) ||
             (switches.reduce_scatter_unused_params && param.requires_grad()))
      gradients.push_back(zeros_like(s, param));
    else
      continue;
    parameters.push_back(p.get());
    param.set_grad({});
  }
}

void ParameterGroup::recycle_input_buffers(Session& s) {
  auto& states = comm_->reduce_scatter_states;
  // Of several groups the last one, whose backward comes first.
  if (place_ + 1 != groups_ || states.size() < comm_->reduce_scatter_max_input_buffers) return;
  const RecordFunction record(s);
  while (states.size() >= comm_->reduce_scatter_max_input_buffers) {
    const ReduceScatterState oldest = std::move(states.front());
    states.pop_front();
    s.wait_event(oldest.allocation_stream, oldest.event);
    if (s.stream != oldest.allocation_stream) s.wait_event(s.stream, oldest.event);
  }
}

void ParameterGroup::wait_for_post_backward(Session& s) {
  if (post_reduce_event_) s.wait_event(s.stream, *post_reduce_event_);
  post_reduce_event_.reset();
  if (all_reduce_state_) s.wait_event(s.stream, all_reduce_state_->event);
  all_reduce_state_.reset();
}

Dtype ParameterGroup::reduce_dtype(const std::vector<Parameter*>& parameters) const {
  if (const auto chosen = parameters.front()->reduce_dtype()) return *chosen;
  Dtype dtype = parameters.front()->unsharded_grad_dtype();
  for (const Parameter* p : parameters) dtype = promoted(dtype, p->unsharded_grad_dtype());
  return partial_reduce_output_.defined() ? promoted(dtype, partial_reduce_output_.dtype()) : dtype;
}

bool ParameterGroup::is_partial_layout(const std::vector<Parameter*>& parameters) const {
  return std::equal(parameters.begin(), parameters.end(), partial_layout_.begin(),
                    partial_layout_.end(),
                    [](const Parameter* p, const auto& entry) { return entry.first == p; });
}

Tensor ParameterGroup::prepare_partial_output(Session& s, const std::vector<Parameter*>& parameters,
                                              Dtype dtype) {
  if (!partial_reduce_output_.defined() && switches.all_reduce_grads) return {};
  if (is_partial_layout(parameters)) {
    if (partial_reduce_output_.defined() && partial_reduce_output_.dtype() != dtype)
      partial_reduce_output_ = to(s, partial_reduce_output_, dtype);
    return partial_reduce_output_;
  }
  std::vector<std::pair<const Parameter*, std::int64_t>> layout;
  std::int64_t numel = 0;
  for (const Parameter* p : parameters) {
    layout.emplace_back(p, numel);
    numel += p->padded_sharded_size().product();
  }
  Tensor repacked;
  if (partial_reduce_output_.defined()) {
    repacked = zeros(s, {numel}, like(partial_reduce_output_, dtype));
    for (const auto& [p, offset] : layout) {
      const auto before = std::find_if(partial_layout_.begin(), partial_layout_.end(),
                                       [&](const auto& entry) { return entry.first == p; });
      if (before == partial_layout_.end()) continue;
      const std::int64_t count = p->sharded_size().product();
      copy_(s, narrow(s, repacked, 0, offset, count),
            narrow(s, partial_reduce_output_, 0, before->second, count));
    }
  }
  partial_layout_ = std::move(layout);
  partial_reduce_output_ = repacked;
  return repacked;
}

void ParameterGroup::reduce(Session& s, std::vector<Parameter*> parameters, Tensors gradients) {
  const Streams& streams = *comm_->streams();
  const Dtype dtype = reduce_dtype(parameters);
  Tensor partial;
  if (mesh_->replicate) {
    // The cast or repacking allocates on that stream before reduce_gradients orders it.
    if (partial_reduce_output_.defined()) s.wait_stream(streams.reduce_scatter, s.stream);
    const OnStream on_reduce_scatter(s, streams.reduce_scatter);
    partial = prepare_partial_output(s, parameters, dtype);
  }
  ReduceResult result = reduce_gradients(
      s, {.parameters = std::move(parameters),
          .gradients = std::move(gradients),
          .reduce_scatter_group = mesh_->reduce_scatter ? mesh_->reduce_scatter : mesh_->shard,
          .all_reduce_group = mesh_->replicate,
          .reduce_scatter_stream = streams.reduce_scatter,
          .all_reduce_stream = streams.all_reduce,
          .dtype = dtype,
          .divide_factor = switches.gradient_divide_factor,
          .force_sum = switches.force_sum_reduction_for_comms,
          .all_reduces = switches.all_reduce_grads,
          .partial_output = std::move(partial),
          .watchers = comm_->watchers()});
  post_reduce_event_ = result.post_reduce_event;
  partial_reduce_output_ = std::move(result.partial_output);
  comm_->note_post_reduce(result.post_reduce_stream, result.post_reduce_event);
  comm_->reduce_scatter_states.push_back({.input = std::move(result.reduce_scatter_input),
                                          .event = result.reduce_scatter_event,
                                          .allocation_stream = s.stream});
  if (result.all_reduce_input.defined())
    all_reduce_state_ = AllReduceState{std::move(result.all_reduce_input), result.all_reduce_event};
}

void ParameterGroup::finalize_backward(Session& s) {
  const Visiting visiting(s, comm_->watchers(), *this, Site::finalize_backward);
  post_reduce_event_.reset();
  all_reduce_state_.reset();
  for (const auto& p : parameters_)
    if (p->grad_offload_event) s.host_wait(*std::exchange(p->grad_offload_event, std::nullopt));
  if (all_gather_result_) {
    s.wait_event(s.stream, all_gather_result_->event);
    all_gather_result_.reset();
  }
  post_forward_indices_.clear();
}

}  // namespace shardscope::eager::fsdp2
