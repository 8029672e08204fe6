#include "core/pytorch/runtimes/fsdp2/reduce.h"

#include "core/pytorch/engine/aten/foreach.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/fsdp2/division.h"

namespace shardscope::eager::fsdp2 {
namespace {

constexpr Operator chunk_cat_op{"fsdp.chunk_cat_mixed_dtype.default", OperatorKind::copy};

/// Elements of a gradient in the copy-in's buffer: padded along dimension 0.
std::int64_t padded_numel(const Tensor& gradient, int world) {
  const std::int64_t rows = gradient.size(0);
  if (rows == 0) return 0;
  return (rows + world - 1) / world * world * (gradient.numel() / rows);
}

/// _default_reduce_scatter_input_fn: shards of another dimension are put along dimension 0.
void reorder_shards(Session& s, const ReduceRequest& request, Tensors& gradients, int world) {
  if (world == 1) return;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (const int dim = request.parameters[i]->shard_dim(); dim != 0)
      gradients[i] = cat(s, chunk(s, gradients[i], world, dim), 0);
}

/// record_grad_output_stream: nothing on a CUDA device, but an operator all the same.
void note_consumer(Session& s, const Tensor& gradients) {
  static constexpr Operator op{"fsdp.record_grad_output_stream.default", OperatorKind::host};
  if (gradients.device() != Device::cpu) dispatched(s, op, {&gradients}, {});
}

enum class Side : std::uint8_t { before, after };

void divide(Session& s, const ReduceRequest& request, const Tensor& tensor,
            std::optional<double> factor, Side side) {
  if (!factor || *factor == 1) return;
  for (Watcher* watcher : request.watchers)
    watcher->on_division(s, tensor, *factor, side == Side::before);
  div_(s, tensor, Number(*factor));
}

/// _cast_and_view_sharded_grads, of one dtype.
Tensors cast_and_view(Session& s, const ReduceRequest& request, Tensor reduced,
                      const std::vector<std::int64_t>& shard_numels) {
  const Dtype to_dtype = request.parameters.front()->sharded_grad_dtype();
  if (reduced.dtype() != to_dtype) {
    for (Watcher* watcher : request.watchers) watcher->on_gradient_cast(s, reduced, to_dtype);
    reduced = to(s, reduced, to_dtype);
    note_consumer(s, reduced);
  }
  Tensors shards;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < request.parameters.size(); ++i) {
    const Dims& sizes = request.parameters[i]->sharded_size();
    shards.push_back(as_strided(s, reduced, sizes, contiguous_strides(sizes), offset));
    offset += shard_numels[i];
  }
  return shards;
}

void offload_or_add(Session& s, Parameter& p, Tensor shard, StreamId post_reduce_stream) {
  const bool accumulates = p.sharded_param().grad().defined();
  if (p.offloads()) {
    const bool non_blocking = p.pins_memory() && !accumulates;
    shard = to(s, shard, {.device = Device::cpu, .non_blocking = non_blocking});
    if (non_blocking) p.grad_offload_event = s.record_event(post_reduce_stream);
  }
  if (accumulates)
    add_(s, p.sharded_param().grad(), shard);
  else
    p.sharded_param().set_grad(shard);
}

/// The gradients in one buffer of the reduce dtype; lets them go.
Tensor copied_in(Session& s, ReduceRequest& request, std::vector<std::int64_t>& shard_numels) {
  const int world = request.reduce_scatter_group->size();
  reorder_shards(s, request, request.gradients, world);
  std::int64_t numel = 0;
  for (const Tensor& gradient : request.gradients) {
    const std::int64_t padded = padded_numel(gradient, world);
    shard_numels.push_back(padded / world);
    numel += padded;
  }
  Tensor input = empty(s, {numel}, {.dtype = request.dtype, .device = s.settings.device});
  dispatched(s, chunk_cat_op, request.gradients, Tensors{view(s, input, {world, -1})});
  let_go_of(request.gradients);
  return input;
}

/// One rank reduces by copying.
void copy_alone(Session& s, const ReduceRequest& request, const Tensor& output,
                const Tensor& input) {
  if (request.divide_factor && *request.divide_factor != 1)
    copy_(s, output, div(s, input, Number(*request.divide_factor)));
  else
    copy_(s, output, input);
}

Tensor scattered(Session& s, const ReduceRequest& request, const Tensor& input,
                 const GradientDivision& division) {
  const int world = request.reduce_scatter_group->size();
  Tensor output =
      empty(s, {input.numel() / world}, {.dtype = request.dtype, .device = s.settings.device});
  divide(s, request, input, division.before, Side::before);
  if (world > 1)
    reduce_scatter_single(s, *request.reduce_scatter_group, output, input,
                          name_of(division.reduce_scatter));
  else
    copy_alone(s, request, output, input);
  return output;
}

/// Gradients that wait for their all-reduce are added up on the reduce-scatter stream.
Tensor added_to_partial(Session& s, const Tensor& partial, const Tensor& output) {
  return partial.defined() ? add_(s, partial, output) : output;
}

void all_reduce_replicas(Session& s, const ReduceRequest& request, const Tensor& output,
                         const GradientDivision& division, ReduceResult& result) {
  if (request.partial_output.defined()) add_(s, output, request.partial_output);
  s.wait_stream(request.all_reduce_stream, request.reduce_scatter_stream);
  const OnStream on_all_reduce(s, request.all_reduce_stream);
  all_reduce(s, *request.all_reduce_group, output, name_of(division.all_reduce));
  result.all_reduce_input = output;
  result.all_reduce_event = s.record_event(request.all_reduce_stream);
  result.post_reduce_stream = request.all_reduce_stream;
}

}  // namespace

ReduceResult reduce_gradients(Session& s, ReduceRequest request) {
  const NoGrad no_grad(s);
  const ProcessGroup* replicas = request.all_reduce_group;
  const GradientDivision division =
      gradient_division({.shards = request.reduce_scatter_group->size(),
                         .replicas = replicas ? replicas->size() : 1,
                         .reduce_dtype = request.dtype,
                         .factor = request.divide_factor,
                         .force_sum = request.force_sum});
  ReduceResult result{.post_reduce_stream = request.reduce_scatter_stream};
  std::vector<std::int64_t> shard_numels;
  result.reduce_scatter_input = copied_in(s, request, shard_numels);
  s.wait_stream(request.reduce_scatter_stream, s.stream);
  Tensor output;
  {
    const OnStream on_reduce_scatter(s, request.reduce_scatter_stream);
    output = scattered(s, request, result.reduce_scatter_input, division);
    result.reduce_scatter_event = s.record_event(request.reduce_scatter_stream);
    if (replicas && !request.all_reduces) {
      result.partial_output = added_to_partial(s, request.partial_output, output);
      result.post_reduce_event = s.record_event(request.reduce_scatter_stream);
      return result;
    }
    if (replicas) all_reduce_replicas(s, request, output, division, result);
  }
  const OnStream on_post_reduce(s, result.post_reduce_stream);
  divide(s, request, output, division.after, Side::after);
  note_consumer(s, output);
  Tensors shards = cast_and_view(s, request, output, shard_numels);
  for (std::size_t i = 0; i < shards.size(); ++i)
    offload_or_add(s, *request.parameters[i], shards[i], result.post_reduce_stream);
  result.post_reduce_event = s.record_event(result.post_reduce_stream);
  return result;
}

}  // namespace shardscope::eager::fsdp2
