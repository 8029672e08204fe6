#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/common/record_function.h"
#include "core/pytorch/runtimes/fsdp1/buffers.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

void move_inputs(Session& s, Arguments& arguments) {
  const RecordFunction to_kwargs(s);
  for (Tensor& tensor : arguments.tensors)
    if (tensor.defined() && tensor.device() != s.settings.device)
      tensor = to(s, tensor, {.device = s.settings.device});
}

void cast_root_inputs(Session& s, const Unit& root, Arguments& arguments) {
  const bool evaluates_in_full =
      !root.wrapper->training && root.shared.options.full_precision_in_eval;
  const bool forced = root.handle && root.handle->forces_full_precision();
  if (!evaluates_in_full && !forced && root.precision.cast_root_forward_inputs)
    cast_inputs(s, arguments, root.precision.parameters);
}

void root_pre_forward(Session& s, Unit& unit, Arguments& arguments) {
  Shared& shared = unit.shared;
  const Visiting visiting(s, shared, {.site = Site::root_pre_forward});
  const RecordFunction recording(s);
  lazy_init(s, shared);
  if (!unit.is_root()) return;
  prepare_buffers(s, shared);
  if (shared.options.forward_prefetch)
    for (Unit* other : shared.units)
      if (other->handle) {
        other->handle->progress.needs_pre_forward_unshard = true;
        other->handle->progress.prefetched = false;
      }
  s.wait_stream(shared.streams.unshard, s.stream);
  s.wait_stream(shared.streams.pre_unshard, s.stream);
  reset_gradient_info_if_needed(shared);
  move_inputs(s, arguments);
  cast_root_inputs(s, unit, arguments);
}

void pre_forward_unshard(Session& s, Unit& unit) {
  if (!unit.handle) return;
  const Streams& streams = unit.shared.streams;
  if (!unit.handle->progress.prefetched) unshard(s, unit, streams.unshard, streams.pre_unshard);
  unit.handle->progress.needs_pre_forward_unshard = false;
  s.wait_stream(s.stream, streams.unshard);
  const RecordFunction prefetching(s);
  prefetch(s, unit, Pass::forward);
}

void register_post_backward_hook(Session& s, Unit& unit) {
  FlatHandle& handle = *unit.handle;
  if (!s.grad_enabled || handle.has_post_backward_hook() || !handle.flat().requires_grad()) return;
  handle.register_post_backward_hook(
      s, [&unit](Session& session, Tensors&, const Tensors&) { post_backward(session, unit); });
}

/// A frozen unit is let go when everything that may need it has its gradient.
void register_reshard_only_hook(Session& s, Unit& unit, const Arguments& arguments) {
  FlatHandle& handle = *unit.handle;
  if (!s.grad_enabled || handle.has_post_backward_hook() || handle.flat().requires_grad()) return;
  Tensors inputs;
  for (const Tensor& tensor : arguments.tensors)
    if (tensor.defined() && tensor.requires_grad()) inputs.push_back(tensor);
  handle.register_reshard_only_hook(s, inputs, [&unit](Session& session, const Tensors&) {
    post_backward_reshard_only(session, unit);
  });
}

void pre_forward(Session& s, Unit& unit, Arguments& arguments) {
  const Visiting visiting(s, unit, Site::pre_forward);
  const RecordFunction recording(s);
  FlatHandle* handle = unit.handle.get();
  // A recomputation finds its parameters unsharded by the pre-backward hook.
  if (!handle || handle->progress.state == HandleState::backward_pre) return;
  unit.shared.order.record_pre_forward(*handle);
  handle->progress.state = HandleState::forward;
  pre_forward_unshard(s, unit);
  register_post_backward_hook(s, unit);
  if (!handle->forces_full_precision() && unit.precision.cast_forward_inputs)
    cast_inputs(s, arguments, unit.precision.parameters);
  register_reshard_only_hook(s, unit, arguments);
}

void register_pre_backward_hooks(Session& s, Unit& unit, const Tensors& outputs) {
  if (!s.grad_enabled) return;
  if (unit.is_root()) unit.shared.final_callback_queued = false;
  FlatHandle* handle = unit.handle.get();
  if (handle) {
    handle->progress.needs_pre_backward_unshard = false;
    handle->progress.ran_pre_backward_hook = false;
  }
  for (const Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    register_hook(s, output, [&unit](Session& session, const Tensor& gradient) {
      pre_backward(session, unit);
      return gradient;
    });
    if (handle) handle->progress.needs_pre_backward_unshard = true;
  }
}

void post_forward(Session& s, Unit& unit, const Tensors& outputs) {
  const Visiting visiting(s, unit, Site::post_forward);
  const RecordFunction recording(s);
  FlatHandle* handle = unit.handle.get();
  if (handle && handle->progress.state == HandleState::backward_pre) return;
  if (handle) {
    unit.shared.order.record_post_forward(*handle);
    reshard(s, unit, !unit.is_root() && handle->reshards_after_forward());
  }
  register_pre_backward_hooks(s, unit, outputs);
  if (handle) handle->progress.state = HandleState::idle;
}

}  // namespace

Tensors forward(Session& s, Unit& unit, const Arguments& given) {
  const RecordFunction recording(s);
  Arguments arguments = given;
  root_pre_forward(s, unit, arguments);
  pre_forward(s, unit, arguments);
  Tensors outputs = call(s, *unit.wrapper->children.front().module, arguments);
  post_forward(s, unit, outputs);
  return outputs;
}

void cast_inputs(Session& s, Arguments& arguments, std::optional<Dtype> dtype) {
  if (!dtype) return;
  for (Tensor& tensor : arguments.tensors)
    if (tensor.defined() && tensor.is_floating_point() && tensor.dtype() != *dtype)
      tensor = to(s, tensor, *dtype);
}

void reset_gradient_info_if_needed(const Shared& shared) {
  for (const Unit* unit : shared.units)
    if (unit->handle) unit->handle->reset_gradient_info_if_needed();
}

}  // namespace shardscope::eager::fsdp1
