#include "core/pytorch/runtimes/ddp/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/refusal.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::ddp {
namespace {

constexpr Operator mul_out_op{"aten.mul.out", OperatorKind::pointwise};
constexpr Operator is_pinned_op{"aten.is_pinned.default", OperatorKind::host};

std::vector<std::vector<std::size_t>> assigned(const Tensors& parameters,
                                               const std::vector<std::size_t>* order,
                                               std::span<const Bytes> limits) {
  std::vector<BucketTensor> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t index = order ? (*order)[i] : i;
    const Tensor& parameter = parameters[index];
    tensors.push_back({.bytes = parameter.bytes(),
                       .dtype = parameter.dtype(),
                       .index = static_cast<std::int64_t>(index)});
  }
  std::vector<std::vector<std::size_t>> assignment;
  for (const shardscope::Bucket& bucket : assign_buckets(
           tensors, limits, order ? BucketOrder::as_closed : BucketOrder::by_first_index))
    assignment.emplace_back(bucket.tensors.begin(), bucket.tensors.end());
  return assignment;
}

/// Strides of the parameter where its memory is dense, else contiguous ones: the gradient layout
/// contract.
Tensor view_of(Session& s, const Tensor& flat, const Tensor& parameter, std::int64_t offset) {
  if (is_dense(parameter.sizes(), parameter.strides()))
    return as_strided(s, flat, parameter.sizes(), parameter.strides(), offset);
  return view(s, narrow(s, flat, 0, offset, parameter.numel()), parameter.sizes());
}

}  // namespace

Reducer::Reducer(Session& s, Tensors parameters, const Settings& settings)
    : s_(s), parameters_(std::move(parameters)), settings_(settings) {
  auto assignment = assigned(parameters_, nullptr, ddp_limits(options()).first);
  std::reverse(assignment.begin(), assignment.end());
  make_buckets(assignment);
  triggers_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_.push_back(gradient_edge(s_, parameters_[i]).node);
    hooks_.push_back(accumulators_.back()->register_hook(
        s_, [this, i](Session&, Tensors&, const Tensors&) { on_gradient(i); }));
  }
  if (!options().find_unused_parameters && !options().static_graph) return;
  used_.resize(parameters_.size());
  host_used_map_ = zeros(s_, {static_cast<std::int64_t>(parameters_.size())},
                         {.dtype = Dtype::int32, .device = Device::cpu});
  used_map_ = empty(s_, {static_cast<std::int64_t>(parameters_.size())},
                    like(parameters_.front(), Dtype::int32));
}

Reducer::~Reducer() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) accumulators_[i]->remove_hook(hooks_[i]);
}

Tensors Reducer::views_of(const Bucket& bucket) {
  Tensors views;
  std::int64_t offset = 0;
  for (const std::size_t variable : bucket.variables) {
    views.push_back(view_of(s_, bucket.gradients, parameters_[variable], offset));
    offset += parameters_[variable].numel();
  }
  return views;
}

void Reducer::make_buckets(const std::vector<std::vector<std::size_t>>& assignment) {
  buckets_.clear();
  place_.assign(parameters_.size(), {});
  for (const std::vector<std::size_t>& variables : assignment) {
    Bucket bucket{.gradients = {}, .views = {}, .variables = variables};
    std::int64_t numel = 0;
    for (const std::size_t variable : variables) {
      place_[variable] = {buckets_.size(), bucket.views.size()};
      bucket.views.emplace_back();
      numel += parameters_[variable].numel();
    }
    bucket.gradients = empty(s_, {numel}, like(parameters_[variables.front()]));
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const Tensor& parameter = parameters_[variables[i]];
      bucket.views[i] = view_of(s_, bucket.gradients, parameter, offset);
      offset += parameter.numel();
      const Tensor& gradient = parameter.grad();
      if (!settings_.gradient_as_bucket_view || !gradient.defined()) continue;
      copy_(s_, bucket.views[i], gradient);
      parameter.set_grad(bucket.views[i]);
    }
    buckets_.push_back(std::move(bucket));
  }
}

void Reducer::prepare_for_backward(const Tensors& outputs) {
  expects_hooks_ = true;
  next_bucket_ = 0;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.variables.size();
  triggers_left_ = triggers_;
  has_marked_unused_ = false;
  ready_order_.clear();
  if (!finds_unused()) return;
  unused_.clear();
  find_unused(outputs);
}

/// search_unused_parameters: those whose AccumulateGrad cannot be reached from the outputs.
void Reducer::find_unused(const Tensors& outputs) {
  std::set<const Node*> seen;
  std::vector<const Node*> queue;
  for (const Tensor& output : outputs)
    if (output.defined() && output.grad_fn()) queue.push_back(output.grad_fn().get());
  while (!queue.empty()) {
    const Node* node = queue.back();
    queue.pop_back();
    for (const Edge& edge : node->next_edges())
      if (edge.valid() && seen.insert(edge.node.get()).second) queue.push_back(edge.node.get());
  }
  for (std::size_t i = 0; i < accumulators_.size(); ++i)
    if (!seen.contains(accumulators_[i].get())) unused_.push_back(i);
}

/// autograd_hook.
void Reducer::on_gradient(std::size_t variable) {
  if ((finds_unused() || is_static_first()) && parameters_[variable].grad().defined()) {
    used_[variable] = true;
    fill_(s_, used_entry(variable));
  }
  if (is_static_first()) {
    ++triggers_[variable];
    return;
  }
  if (!expects_hooks_) return;
  ready_order_.push_back(variable);
  if (!has_marked_unused_) {
    has_marked_unused_ = true;
    for (const std::size_t unused : unused_) mark_ready(unused);
  }
  if (options().static_graph) {
    if (triggers_left_[variable] <= 0)
      throw Refusal("RuntimeError", {.where = "DistributedDataParallel",
                                     .what = "the training graph has changed in this iteration",
                                     .way_out = "leave static_graph off"});
    if (--triggers_left_[variable] > 0) return;
  }
  if (should_rebuild()) rebuilt_order_.push_back(variable);
  mark_ready(variable);
}

void Reducer::mark_ready(std::size_t variable) {
  requires_finalize_ = true;
  copy_into_bucket(variable);
  const std::size_t index = place_[variable].first;
  if (--buckets_[index].pending == 0 && index == next_bucket_) reduce_ready_buckets();
  if (next_bucket_ != buckets_.size()) return;
  if (finds_unused()) reduce_used_map();
  queue_callback(s_, [this](Session&) {
    if (options().static_graph && should_rebuild())
      rebuilt_order_.insert(rebuilt_order_.end(), unused_.begin(), unused_.end());
    finalize_backward();
  });
}

/// mark_variable_ready_dense.
void Reducer::copy_into_bucket(std::size_t variable) {
  const auto [bucket, index] = place_[variable];
  const Tensor& view = buckets_[bucket].views[index];
  const Tensor& parameter = parameters_[variable];
  const Tensor& gradient = parameter.grad();
  if (!gradient.defined()) {
    zero_(s_, view);
    return;
  }
  if (gradient.storage() == view.storage()) {
    if (!communication_hook_) div_(s_, view, Number(settings_.group->size()));
    return;
  }
  if (communication_hook_)
    copy_(s_, view, gradient);
  else
    dispatched(s_, mul_out_op, {&gradient}, {&view});
  if (settings_.gradient_as_bucket_view) parameter.set_grad(view);
}

void Reducer::reduce_ready_buckets() {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0; ++next_bucket_)
    reduce_bucket(next_bucket_);
}

void Reducer::reduce_bucket(std::size_t index) {
  const Tensor& gradients = buckets_[index].gradients;
  for (Watcher* watcher : watchers_) watcher->on_bucket_reduced(s_, index, gradients);
  if (communication_hook_)
    communication_hook_(s_, gradients);
  else
    buckets_[index].reduced = all_reduce(s_, *settings_.group, gradients, "SUM", true);
}

Tensor Reducer::used_entry(std::size_t variable) {
  return select(s_, host_used_map_, 0, static_cast<std::int64_t>(variable));
}

/// all_reduce_local_used_map: to the device by way of pinned memory.
void Reducer::reduce_used_map() {
  if (used_map_.device() == Device::cuda) {
    const Tensor pinned =
        empty_strided(s_, host_used_map_.sizes(), host_used_map_.strides(), like(host_used_map_));
    dispatched(s_, is_pinned_op, {&pinned}, {});
    copy_(s_, pinned, host_used_map_);
    copy_(s_, used_map_, pinned, true);
  } else {
    copy_(s_, used_map_, host_used_map_);
  }
  used_map_sum_ = all_reduce(s_, *settings_.group, used_map_, "SUM", true);
}

void Reducer::delay_all_reduce() {
  reduce_used_map();
  unused_.clear();
  requires_finalize_ = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (triggers_[i] == 0) unused_.push_back(i);
    copy_into_bucket(i);
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) reduce_bucket(i);
  finalize_backward();
}

void Reducer::finalize_backward() {
  if (!expects_hooks_)
    throw Refusal("RuntimeError", {.where = "DistributedDataParallel",
                                   .what = "a backward without synchronization was finalized",
                                   .way_out = "use no_sync only after the first iteration of a "
                                              "static graph"});
  expects_hooks_ = false;
  requires_finalize_ = false;
  for (const Bucket& bucket : buckets_) finalize_bucket(bucket);
  if (!finds_unused()) return;
  used_.assign(used_.size(), false);
  fill_(s_, host_used_map_);
  used_map_reduced_ = false;
}

/// A parameter that no rank used: all ranks run the same model, so that this one knows. To find
/// out, the host waits for the map.
bool Reducer::is_globally_unused(std::size_t variable) {
  if (used_.empty()) return false;
  item(s_, used_entry(variable));
  if (used_[variable]) return false;
  if (!used_map_reduced_) {
    s_.wait_work(used_map_sum_);
    copy_(s_, host_used_map_, used_map_);
    if (used_map_.device() == Device::cuda) s_.host_sync();
    item(s_, used_entry(variable));
  }
  used_map_reduced_ = true;
  return true;
}

void Reducer::finalize_bucket(const Bucket& bucket) {
  s_.wait_work(bucket.reduced);
  // populate_bucket_views_out: of what the reduction gave, here the bucket itself.
  const Tensors reduced = views_of(bucket);
  for (std::size_t i = 0; i < bucket.variables.size(); ++i) {
    if (is_globally_unused(bucket.variables[i])) continue;
    const Tensor& parameter = parameters_[bucket.variables[i]];
    if (settings_.gradient_as_bucket_view) {
      if (!parameter.grad().defined()) parameter.set_grad(bucket.views[i]);
    } else if (parameter.grad().defined()) {
      copy_(s_, parameter.grad(), reduced[i]);
    } else {
      parameter.set_grad(clone(s_, reduced[i]));
    }
  }
}

bool Reducer::rebuild_buckets() {
  if (requires_finalize_)
    throw Refusal("RuntimeError",
                  {.where = "DistributedDataParallel",
                   .what = "Expected to have finished reduction in the prior iteration before "
                           "starting a new one: some parameters got no gradient",
                   .way_out = "set find_unused_parameters, or use all parameters"});
  if (!should_rebuild() || rebuilt_order_.empty()) return false;
  const auto assignment = assigned(parameters_, &rebuilt_order_, ddp_limits(options()).rebuilt);
  broadcast_assignment(assignment);
  has_rebuilt_ = true;
  rebuilt_order_.clear();
  make_buckets(assignment);
  return true;
}

/// sync_bucket_indices: the order of rank 0 counts.
void Reducer::broadcast_assignment(const std::vector<std::vector<std::size_t>>& assignment) {
  std::int64_t indices = 1;
  for (const auto& bucket : assignment) indices += static_cast<std::int64_t>(bucket.size());
  const Like on_device = like(parameters_.front(), Dtype::int32);
  const Like on_host{.dtype = Dtype::int32, .device = Device::cpu};
  const auto send = [&](std::int64_t count) {
    const Tensor host = empty(s_, {count}, on_host);
    const Tensor device = empty(s_, {count}, on_device);
    copy_(s_, device, host, true);
    s_.wait_work(broadcast(s_, *settings_.group, device, 0, true));
    copy_(s_, host, device);
    return device;
  };
  const Tensor index_map = send(indices);
  const Tensor sizes = send(static_cast<std::int64_t>(assignment.size()));
}

}  // namespace shardscope::eager::ddp
