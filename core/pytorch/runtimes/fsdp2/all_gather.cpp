#include "core/pytorch/runtimes/fsdp2/all_gather.h"

#include <numeric>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::fsdp2 {
namespace {

constexpr Operator copy_in_op{"fsdp.all_gather_copy_in.default", OperatorKind::copy};
constexpr Operator copy_out_op{"fsdp.split_with_sizes_copy.default", OperatorKind::copy};
constexpr Operator split_op{"aten.split_with_sizes.default", OperatorKind::view};
constexpr Operator foreach_copy_op{"aten._foreach_copy_.default", OperatorKind::copy};
constexpr Operator cat_out_op{"aten.cat.out", OperatorKind::copy};

bool casts_with_the_others(const Parameter& p) {
  return p.param_dtype() && !p.offloads() && !p.has_gather_extension();
}

/// One flat buffer in the compute dtype takes the shards of all parameters that are cast.
void cast_together(Session& s, const Parameters& parameters, Tensors& inputs) {
  Tensors shards, parts;
  std::int64_t numel = 0;
  std::optional<Dtype> dtype;
  for (const auto& p : parameters) {
    if (!casts_with_the_others(*p)) continue;
    if (!dtype) dtype = p->param_dtype();
    shards.push_back(p->shard_to_gather());
    numel += shards.back().numel();
  }
  if (shards.empty()) return;
  const Tensor flat = empty(s, {numel}, {.dtype = *dtype, .device = s.settings.device});
  std::int64_t offset = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!casts_with_the_others(*parameters[i])) continue;
    const std::int64_t part = shards[next++].numel();
    inputs[i] = alias_of(flat, {part}, {1}, offset);
    parts.push_back(inputs[i]);
    offset += part;
  }
  dispatched(s, split_op, Tensors{flat}, parts);
  Tensors both = parts;
  both.insert(both.end(), shards.begin(), shards.end());
  dispatched(s, foreach_copy_op, both, parts);
}

Tensors gather_inputs(Session& s, const Parameters& parameters) {
  Tensors inputs(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!casts_with_the_others(*parameters[i])) inputs[i] = parameters[i]->all_gather_input(s);
  cast_together(s, parameters, inputs);
  return inputs;
}

/// What goes over the wire: the inputs' dtype, or bytes where they have several.
Dtype wire_dtype(const std::vector<Dtype>& dtypes) {
  for (const Dtype dtype : dtypes)
    if (dtype != dtypes.front()) return Dtype::uint8;
  return dtypes.front();
}

/// Tensor.view(torch.uint8): several dtypes travel as bytes.
Tensor as_bytes(const Tensor& tensor) {
  const std::int64_t width = size_of(tensor.dtype()).count;
  TensorImpl::Layout layout = tensor->layout;
  layout.dtype = Dtype::uint8;
  layout.sizes[-1] *= width;
  layout.strides = contiguous_strides(layout.sizes);
  layout.offset *= width;
  return Tensor(Ref<TensorImpl>(new TensorImpl(tensor.storage(), layout)));
}

/// Gathered along dimension 0 in `temporary`; torch.cat puts the parts side by side.
void reassemble(Session& s, const Parameter& p, const Tensor& temporary, int world) {
  Dims stacked = p.padded_sharded_size();
  stacked[0] *= world;
  const Tensors parts = chunk(s, view(s, temporary, stacked), world, 0);
  Dims whole = p.padded_sharded_size();
  whole[p.shard_dim()] *= world;
  const Tensor target = view(s, p.gathered(), whole);
  dispatched(s, cat_out_op, parts, Tensors{target});
}

}  // namespace

AllGatherResult all_gather(Session& s, const Parameters& parameters, const ProcessGroup& group,
                           bool asynchronous, AllGatherStreams streams) {
  const NoGrad no_grad(s);
  AllGatherResult result;
  Tensors inputs;  // low-precision copies live until all of this has been issued
  Tensor own;
  {
    const OnStream on_copy_in(s, streams.copy_in);
    inputs = gather_inputs(s, parameters);
    for (const Tensor& input : inputs) {
      result.input_dtypes.push_back(input.dtype());
      result.input_numels.push_back(input.numel());
    }
    const Dtype dtype = wire_dtype(result.input_dtypes);
    for (Tensor& input : inputs)
      if (dtype == Dtype::uint8 && input.dtype() != Dtype::uint8) input = as_bytes(input);
    std::int64_t numel = 0;
    for (const Tensor& input : inputs) numel += input.numel();
    result.output = empty(s, {numel * group.size()}, {.dtype = dtype, .device = s.settings.device});
    own = alias_of(result.output, {numel}, {1}, numel * group.rank);
    dispatched(s, copy_in_op, inputs, Tensors{own, result.output});
  }
  s.wait_stream(streams.gather, streams.copy_in);
  const OnStream on_gather(s, streams.gather);
  result.work = all_gather_single(s, group, result.output, own, asynchronous);
  result.event = s.record_event(streams.gather);
  while (!inputs.empty()) inputs.pop_back();  // as Python lets go of a list
  return result;
}

void copy_out(Session& s, const AllGatherResult& result, const Parameters& parameters,
              const ProcessGroup& group) {
  const NoGrad no_grad(s);
  s.wait_event(s.stream, result.event);
  s.wait_work(result.work);
  const int world = group.size();
  Tensors targets;
  std::vector<std::pair<const Parameter*, Tensor>> to_reassemble;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& p = *parameters[i];
    p.init_gathered(s, result.input_numels[i], result.input_dtypes[i], world);
    p.alloc_gathered();
    targets.push_back(p.gathered());
    if (p.shard_dim() == 0) continue;
    targets.back() = empty_like(s, p.gathered());
    to_reassemble.emplace_back(&p, targets.back());
  }
  const Tensor rows = view(s, result.output, {world, -1});
  for (Tensor& target : targets) {
    target = view(s, target, {world, -1});
    if (rows.dtype() == Dtype::uint8 && target.dtype() != Dtype::uint8) target = as_bytes(target);
  }
  dispatched(s, copy_out_op, Tensors{rows}, targets);
  for (const auto& [p, temporary] : to_reassemble) reassemble(s, *p, temporary, world);
}

}  // namespace shardscope::eager::fsdp2
