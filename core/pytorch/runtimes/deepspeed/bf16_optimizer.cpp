#include "core/pytorch/runtimes/deepspeed/bf16_optimizer.h"

#include <fmt/format.h>

#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/norms.h"
#include "core/pytorch/runtimes/deepspeed/parameter_tree.h"

namespace shardscope::eager::deepspeed {

bool takes_bf16_optimizer(const Setup& setup) {
  return zero_optimizer(zero_settings(setup)) == ZeroOptimizer::bf16;
}

Bf16Optimizer::Bf16Optimizer(Setup setup) : setup_(std::move(setup)) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  const ModuleTree tree = parameter_tree(setup_.parameters);
  for (const ZeroFlatGroup& layout :
       zero_flat_groups(tree, optimizer_groups(setup_.groups), zero_settings(setup_))) {
    const FlatGroup& group = groups_.emplace_back(setup_, layout);
    const Like kind{.dtype = setup_.accumulation_dtype(), .device = s.settings.device};
    Gradients gradients{.flat = zeros(s, {group.flat().numel()}, kind), .views = {}, .present = {}};
    for (std::size_t i = 0; i < layout.parameters.size(); ++i)
      gradients.views.push_back(narrow(s, gradients.flat, 0, layout.offsets[i],
                                       parameter(groups_.size() - 1, i).numel()));
    gradients.present.resize(layout.parameters.size());
    gradients_.push_back(std::move(gradients));
  }
  if (!setup_.settings.immediate_gradients) return;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < gradients_[group].views.size(); ++i)
      register_post_accumulate_grad_hook(s, parameter(group, i),
                                         [this, group, i](Session& session, const Tensor& p) {
                                           const NoGrad off(session);
                                           add_gradient(group, i);
                                           p.set_grad({});
                                         });
}

const Tensor& Bf16Optimizer::parameter(std::size_t group, std::size_t place) const {
  const auto index = static_cast<std::size_t>(groups_[group].layout().parameters[place]);
  return setup_.parameters[index].tensor();
}

/// clear_lp_grads: gradients of the micro-batch before stay, as zeros.
void Bf16Optimizer::start_backward() {
  static constexpr Operator zero{"aten._foreach_zero_.default", OperatorKind::pointwise};
  Tensors left;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < gradients_[group].views.size(); ++i)
      if (const Tensor& gradient = parameter(group, i).grad()) left.push_back(gradient);
  if (!left.empty()) dispatched(setup_.s, zero, left, left);
}

/// _update_hp_grad.
void Bf16Optimizer::add_gradient(std::size_t group, std::size_t place) {
  Session& s = setup_.s;
  const Tensor& gradient = parameter(group, place).grad();
  if (!gradient) return;
  const Tensor& sum = gradients_[group].views[place];
  add_(s, sum, view(s, to(s, gradient, sum.dtype()), sum.sizes()));
  gradients_[group].present[place] = true;
}

void Bf16Optimizer::end_backward() {
  const NoGrad no_grad(setup_.s);
  if (!setup_.settings.immediate_gradients)
    for (std::size_t group = 0; group < groups_.size(); ++group)
      for (std::size_t i = 0; i < gradients_[group].views.size(); ++i) add_gradient(group, i);
  if (at_boundary()) all_reduce_gradients();
}

/// All groups' gradients, flattened together up to MEMORY_OPT_ALLREDUCE_SIZE elements.
void Bf16Optimizer::all_reduce_gradients() {
  constexpr std::int64_t elements_a_buffer = 500'000'000;
  Session& s = setup_.s;
  const Dtype wire = setup_.communication_dtype();
  const auto reduce = [&](const Tensors& bucket) {
    const Tensor flat = bucket.size() == 1 ? bucket.front() : cat(s, bucket);
    const Tensor sent = to(s, flat, wire);
    all_reduce(s, setup_.group, sent, "SUM");
    if (setup_.group.size() != 1) mul_(s, sent, 1.0 / setup_.group.size());
    if (wire != flat.dtype()) copy_(s, flat, sent);
    std::int64_t at = 0;
    for (const Tensor& gradients : bucket) {
      copy_(s, gradients, narrow(s, flat, 0, at, gradients.numel()));
      at += gradients.numel();
    }
  };
  Tensors bucket;
  std::int64_t elements = 0;
  for (const Gradients& gradients : gradients_) {
    bucket.push_back(gradients.flat);
    elements += gradients.flat.numel();
    if (elements <= elements_a_buffer) continue;
    reduce(std::exchange(bucket, {}));
    elements = 0;
  }
  if (!bucket.empty()) reduce(bucket);
}

Tensors Bf16Optimizer::present_gradients() const {
  Tensors all;
  for (const Gradients& gradients : gradients_)
    for (std::size_t i = 0; i < gradients.views.size(); ++i)
      if (gradients.present[i]) all.push_back(gradients.views[i]);
  return all;
}

/// get_global_norm_of_tensors: no ranks are asked, every one has all gradients.
Tensor Bf16Optimizer::global_norm() {
  Session& s = setup_.s;
  Tensors norms;
  for (const Tensor& gradient : present_gradients())
    norms.push_back(vector_norm(s, to(s, gradient, Dtype::float32)));
  const Tensor powers = pow(s, stack(s, norms), 2.0);
  const Tensor total = sum(s, powers);
  Tensor norm = pow(s, total, 0.5);
  mask_invalid(s, norm);
  return norm;
}

/// clip_tensors_by_global_norm: the coefficient is read back; here the gradients are too large.
void Bf16Optimizer::clip(const Tensor& norm) {
  Session& s = setup_.s;
  const Tensor coefficient = mul(s, reciprocal(s, add(s, norm, 1e-6)), 1.0);
  item(s, compare(s, Comparison::lt, coefficient, 1));
  for (const Tensor& gradient : present_gradients()) mul_(s, gradient, coefficient);
}

void Bf16Optimizer::step() {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  const Visiting visiting = setup_.visiting(Site::step);
  const Tensor norm = global_norm();
  keep_norm(norm);
  check_norm(s, norm);
  if (setup_.settings.gradient_clipping > 0) clip(norm);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const FlatGroup& group = groups_[i];
    const std::int64_t elements = group.layout().partition_elements;
    group.master().set_grad(
        narrow(s, gradients_[i].flat, 0, elements * setup_.group.rank, elements));
  }
  for (const FlatGroup& group : groups_) setup_.optimizer.step(s, group.master());
  for (const FlatGroup& group : groups_) copy_(s, group.own_partition(s), group.master());
  if (setup_.group.size() > 1)
    for (const FlatGroup& group : groups_)
      all_gather_single(s, setup_.group, group.flat(), group.own_partition(s));
  clear_gradients();
}

void Bf16Optimizer::clear_gradients() {
  for (Gradients& gradients : gradients_) {
    zero_(setup_.s, gradients.flat);
    gradients.present.assign(gradients.present.size(), false);
  }
}

void Bf16Optimizer::zero_grad() {
  const NoGrad no_grad(setup_.s);
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < gradients_[group].views.size(); ++i)
      parameter(group, i).set_grad({});
  clear_gradients();
}

std::vector<HeldTensor> Bf16Optimizer::held() const {
  std::vector<HeldTensor> all;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].add_held(i, all);
    all.push_back({gradients_[i].flat, MemoryCategory::gradients,
                   fmt::format("optimizer group {}: float32 gradients", i)});
  }
  return all;
}

}  // namespace shardscope::eager::deepspeed
