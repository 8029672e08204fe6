#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"

#include <algorithm>

#include "core/base/refusal.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/broadcast_coalesced.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/common/visit_scope.h"

namespace shardscope::eager::ddp {
namespace {

using Visiting = VisitScope<Watcher, Site>;

Tensors trainable_parameters(Module& module) {
  Tensors parameters;
  for (const NamedParameter& named : named_parameters_of(module))
    if (named.tensor().requires_grad()) parameters.push_back(named.tensor());
  if (parameters.empty())
    throw Refusal("RuntimeError", {.where = "DistributedDataParallel",
                                   .what = "no parameter requires a gradient",
                                   .way_out = "run without it, or train some parameters"});
  return parameters;
}

/// verify_params_across_processes: how many parameters, then their shapes and strides.
void verify_parameter_shapes(Session& s, const ProcessGroup& group, const Tensors& parameters) {
  const Like whole{.dtype = Dtype::int64, .device = parameters.front().device()};
  const Tensor count = empty(s, {1}, whole);
  Tensors counts;
  for (int rank = 0; rank < group.size(); ++rank) counts.push_back(empty_like(s, count));
  s.wait_work(all_gather_list(s, group, counts, count, true));
  std::int64_t entries = 0;
  for (const Tensor& parameter : parameters) entries += 2 * parameter.dim();
  const Tensor metadata = empty(s, {entries}, whole);
  s.wait_work(broadcast(s, group, metadata, 0, true));
}

/// Comparing shapes across processes ends in Tensor.item() of one.
void refuse_meta(const Tensors& parameters) {
  for (const Tensor& parameter : parameters)
    if (parameter.device() == Device::meta)
      throw Refusal("RuntimeError", {.where = "DistributedDataParallel",
                                     .what = "Tensor.item() cannot be called on meta tensors",
                                     .way_out = "make the model on the device"});
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(Session& s, std::shared_ptr<Module> module,
                                                 const ProcessGroup& group, Options options)
    : s_(s),
      inner_(std::move(module)),
      wrapper_(std::make_shared<Module>()),
      group_(group),
      options_(std::move(options)) {
  const Tensors parameters = trainable_parameters(*inner_);
  if (options_.init_sync) {
    refuse_meta(parameters);
    const Visiting visiting(s_, options_.watchers, Site::verify_param_shapes);
    verify_parameter_shapes(s_, group_, parameters);
  }
  if (options_.init_sync) sync_module_states();
  reducer_ = std::make_unique<Reducer>(
      s_, parameters,
      Reducer::Settings{.group = &group_,
                        .options = options_.buckets,
                        .gradient_as_bucket_view = options_.gradient_as_bucket_view});
  if (options_.communication_hook) reducer_->set_communication_hook(options_.communication_hook);
  for (Watcher* watcher : options_.watchers) reducer_->watch(*watcher);
  for (const auto& [name, buffer] : named_buffers_of(*inner_)) buffers_.push_back(buffer);
  wrapper_->class_name = "DistributedDataParallel";
  wrapper_->children.push_back({.name = "module", .module = inner_});
  wrapper_->forward = [this](Session&, Module&, const Arguments& arguments) {
    return forward(arguments);
  };
}

/// _sync_module_states: all parameters, frozen ones too, and buffers.
void DistributedDataParallel::sync_module_states() {
  const Visiting visiting(s_, options_.watchers, Site::sync_module_states);
  Tensors states;
  for (const NamedParameter& named : named_parameters_of(*inner_))
    states.push_back(detach(s_, named.tensor()));
  if (options_.broadcast_buffers)
    for (const auto& [name, buffer] : named_buffers_of(*inner_))
      states.push_back(detach(s_, buffer));
  broadcast_coalesced(s_, group_, states, broadcast_bucket_size);
}

void DistributedDataParallel::sync_buffers() {
  const Visiting visiting(s_, options_.watchers, Site::sync_buffers);
  const NoGrad no_grad(s_);
  broadcast_coalesced(s_, group_, buffers_, broadcast_bucket_size);
}

Tensors DistributedDataParallel::forward(const Arguments& arguments) {
  Tensors outputs;  // lives until all of this returns, past the end of the record
  const RecordFunction record(s_);
  pre_forward();
  outputs = call(s_, *inner_, arguments);
  return post_forward(outputs);
}

void DistributedDataParallel::pre_forward() {
  if (s_.grad_enabled && requires_sync_) reducer_->prepare_for_forward();
  if (s_.grad_enabled) {
    bool rebuilt = false;
    {
      const Visiting visiting(s_, options_.watchers, Site::rebuild_buckets);
      rebuilt = reducer_->rebuild_buckets();
    }
    if (rebuilt)
      for (Watcher* watcher : options_.watchers) watcher->on_buckets_rebuilt(s_);
  }
  if (requires_forward_sync_ && options_.broadcast_buffers && !buffers_.empty()) sync_buffers();
}

Tensors DistributedDataParallel::post_forward(const Tensors& outputs) {
  const bool finds_unused =
      options_.buckets.find_unused_parameters && !options_.buckets.static_graph;
  requires_forward_sync_ = s_.grad_enabled && requires_sync_;
  if (requires_forward_sync_) reducer_->prepare_for_backward(finds_unused ? outputs : Tensors{});
  if (finds_unused || (options_.buckets.static_graph && !delay_enqueued_))
    return through_sink(outputs);
  return outputs;
}

/// _DDPSink: what the outputs pass through on their way back, first of all.
Tensors DistributedDataParallel::through_sink(const Tensors& outputs) {
  Tensors passed = apply_function(
      s_, "_DDPSinkBackward", outputs,
      [&](Session& s, const NodeRef&) {
        Tensors clones;
        for (const Tensor& output : outputs)
          clones.push_back(output.defined() ? clone(s, output) : Tensor());
        return clones;
      },
      [this](Session& s, Node&, Tensors& gradients) {
        if (options_.buckets.static_graph && !delay_enqueued_) {
          queue_callback(s, [this](Session&) { reducer_->delay_all_reduce(); });
          delay_enqueued_ = true;
        }
        return gradients;
      });
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined() && !outputs[i].grad_fn()) passed[i] = outputs[i];
  return passed;
}

}  // namespace shardscope::eager::ddp
