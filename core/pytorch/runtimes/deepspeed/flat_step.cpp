// The step of stages 1 and 2: norm, the rank's partition of the optimizer, all-gather.
#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/flat_optimizer.h"
#include "core/pytorch/runtimes/deepspeed/norms.h"

namespace shardscope::eager::deepspeed {

void FlatOptimizer::step() {
  const NoGrad no_grad(setup_.s);
  const Visiting visiting = setup_.visiting(Site::step);
  micro_step_ = -1;
  wait_for_offload_copies();
  if (setup_.dtype() != Dtype::float32) check_overflow();
  const Tensor norm = global_norm();
  if (setup_.dtype() != Dtype::float32) check_norm(setup_.s, norm);
  keep_norm(div(setup_.s, norm, 1.0));
  for (std::size_t group = 0; group < groups_.size(); ++group)
    offloads() ? offloaded_step(group, norm) : step_group(group, norm);
  std::fill(offloaded_norms_.begin(), offloaded_norms_.end(), Tensor());
  all_gather_parameters();
}

void FlatOptimizer::check_overflow() {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::check_overflow);
  const Visiting inner = setup_.visiting(Site::has_overflow);
  const Tensor overflow = offloads() ? tensor(s, {1}, {Dtype::uint8, s.settings.device})
                                     : to(s, invalid_partitions(), Dtype::uint8);
  all_reduce(s, setup_.group, overflow, "MAX");
  item(s, overflow);
}

/// has_overflow_partitioned_grads_serial.
Tensor FlatOptimizer::invalid_partitions() {
  Session& s = setup_.s;
  const Tensor count = zeros(s, {1}, {.dtype = Dtype::float32, .device = s.settings.device});
  for (const std::vector<PartitionPart>& group : averaged_gradients_)
    for (const PartitionPart& part : group) add_(s, count, has_inf_or_nan(s, part.tensor));
  return to(s, count, Dtype::boolean);
}

/// get_grad_norm_direct.
Tensor FlatOptimizer::group_norm(std::size_t group) {
  Session& s = setup_.s;
  if (offloads()) return offloaded_norm(group);
  const Visiting visiting = setup_.visiting(Site::grad_norm);
  Tensors norms;
  for (const Tensor& gradient : gradients_in_partition(group))
    norms.push_back(vector_norm(s, to(s, gradient, norm_dtype)));
  const Like scalar{.dtype = Dtype::float32, .device = s.settings.device};
  Tensor total = norms.empty() ? tensor(s, {}, scalar)
                               : to(s, sum(s, pow(s, stack(s, norms), 2.0)), Dtype::float32);
  all_reduce(s, setup_.group, total, "SUM");
  total = pow(s, total, 0.5);
  mask_invalid(s, total);
  return total;
}

Tensor FlatOptimizer::global_norm() {
  const Visiting visiting = setup_.visiting(Site::scaled_global_norm);
  Tensors norms;
  for (std::size_t group = 0; group < groups_.size(); ++group) norms.push_back(group_norm(group));
  return combined_norm(setup_.s, norms);
}

/// unscale_and_clip_grads.
void FlatOptimizer::unscale_and_clip(const Tensor& gradient, const Tensor& norm) {
  Session& s = setup_.s;
  if (setup_.settings.gradient_clipping > 0) {
    check_norm(s, norm);
    mul_(s, gradient, clip_factor(s, norm));
  } else if (setup_.dtype() == Dtype::float16) {
    mul_(s, gradient, 1.0);
  }
}

void FlatOptimizer::step_group(std::size_t index, const Tensor& norm) {
  Session& s = setup_.s;
  const FlatGroup& group = groups_[index];
  for (const std::size_t p : group.not_in_partition()) {
    parameter(p).set_grad({});
    accumulated_[p].reset();
  }
  Tensor partition;
  if (compact()) {
    partition = compact_partitions_[index];
  } else {
    Tensors flat;
    for (const PartitionPart& part : averaged_gradients_[index])
      flat.push_back(view(s, contiguous(s, part.tensor), {-1}));
    partition = flat.size() == 1 ? flat.front() : cat(s, std::move(flat));
  }
  const Tensor gradient = to(s, std::exchange(partition, {}), group.master().dtype());
  group.master().set_grad(gradient);
  for (const std::size_t p : group.in_partition()) {
    parameter(p).set_grad({});
    accumulated_[p].reset();
  }
  averaged_gradients_[index].clear();
  compact_partitions_[index].reset();
  all_gradients_[index].clear();
  unscale_and_clip(gradient, norm);
  setup_.optimizer.step(s, group.master());
  group.master().set_grad({});
  copy_(s, group.own_partition(s), group.master());
}

void FlatOptimizer::all_gather_parameters() {
  Session& s = setup_.s;
  if (setup_.group.size() > 1)
    for (const FlatGroup& group : groups_)
      all_gather_single(s, setup_.group, group.flat(), group.own_partition(s));
  for (const FlatGroup& group : groups_) group.point_parameters(setup_);
}

}  // namespace shardscope::eager::deepspeed
