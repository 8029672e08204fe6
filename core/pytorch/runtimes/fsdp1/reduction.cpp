#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/fsdp1/flat_storage.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

void divide_if_needed(Session& s, const Shared& shared, const Tensor& tensor, double by) {
  if (by <= 1) return;
  shared.tell([&](Watcher& watcher) { watcher.on_division(s, tensor, by); });
  div_(s, tensor, Number(by));
}

void cast_to_parameter_dtype(Session& s, const Unit& unit, const Tensor& gradient) {
  const Dtype dtype = unit.handle->flat().dtype();
  if (gradient.dtype() == dtype) return;
  unit.shared.tell([&](Watcher& watcher) { watcher.on_gradient_cast(s, gradient, dtype); });
  const Tensor low_precision = shallow_detach(s, gradient);
  gradient.set_data(to(s, shallow_detach(s, gradient), dtype));
  record_stream(s, unit.shared, low_precision, s.stream);
}

/// The gradient to offload.
Tensor accumulate(Session& s, Unit& unit, const Tensor& gradient) {
  FlatHandle& handle = *unit.handle;
  const bool adds = handle.saved_gradient_shard.has_value();
  if (adds) unit.shared.tell([&](Watcher& w) { w.on_accumulation(s, unit, gradient); });
  cast_to_parameter_dtype(s, unit, gradient);
  if (adds)
    add_(s, *handle.saved_gradient_shard, gradient);
  else
    handle.saved_gradient_shard = gradient;
  return *handle.saved_gradient_shard;
}

void after_reduction(Session& s, Unit& unit, const Tensor& gradient) {
  FlatHandle& handle = *unit.handle;
  if (unit.shared.options.offload_parameters) {
    copy_(s, handle.cpu_gradient, detach(s, gradient), handle.is_sharded_strategy());
    record_stream(s, unit.shared, shallow_detach(s, gradient), unit.shared.streams.post_backward);
  }
  if (!handle.uses_original_parameters()) return;
  handle.reset_gradient_is_none();
  handle.use_sharded_gradient_views(s);
}

struct ReduceScatterTensors {
  Tensor input;
  Tensor output;
};

ReduceScatterTensors reduce_scatter_tensors(Session& s, const Unit& unit, const Tensor& gradient) {
  const Tensors chunks = chunk(s, gradient, unit.group.size(), 0);
  const std::int64_t missing = unit.group.size() * chunks.front().numel() - gradient.numel();
  Tensor padded = missing > 0 ? pad_right(s, gradient, missing) : gradient;
  return {.input = std::move(padded), .output = empty_like(s, chunks.front())};
}

void reduce_sharded(Session& s, Unit& unit) {
  const Shared& shared = unit.shared;
  const Tensor gradient = shallow_detach(s, unit.handle->flat().grad());
  unit.handle->flat().set_grad({});
  const ReduceScatterTensors tensors = reduce_scatter_tensors(s, unit, gradient);
  divide_if_needed(s, shared, tensors.input, unit.divide_before);
  reduce_scatter_single(s, unit.group, tensors.output, tensors.input, "SUM");
  if (!unit.is_hybrid()) {
    divide_if_needed(s, shared, tensors.output, unit.divide_after);
    after_reduction(s, unit, accumulate(s, unit, tensors.output));
    return;
  }
  s.wait_stream(shared.streams.all_reduce, shared.streams.post_backward);
  const OnStream on(s, shared.streams.all_reduce);
  record_stream(s, shared, tensors.output, shared.streams.all_reduce);
  all_reduce(s, *unit.replicas, tensors.output, "SUM");
  divide_if_needed(s, shared, tensors.output, unit.divide_after);
  after_reduction(s, unit, accumulate(s, unit, tensors.output));
}

void reduce_unsharded(Session& s, Unit& unit) {
  const Tensor gradient = unit.handle->flat().grad();
  divide_if_needed(s, unit.shared, gradient, unit.divide_before);
  all_reduce(s, unit.group, gradient, "SUM");
  divide_if_needed(s, unit.shared, gradient, unit.divide_after);
  if (!unit.precision.keep_low_precision_gradients) cast_to_parameter_dtype(s, unit, gradient);
  after_reduction(s, unit, shallow_detach(s, gradient));
}

}  // namespace

void reduce_gradient(Session& s, Unit& unit) {
  const Visiting visiting(s, unit, Site::reduce_gradient);
  if (unit.handle->is_sharded_strategy())
    reduce_sharded(s, unit);
  else
    reduce_unsharded(s, unit);
}

}  // namespace shardscope::eager::fsdp1
