#include "core/pytorch/runtimes/common/grad_scaler.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager {
namespace {

/// Gradients by dtype, each dtype where its first one comes.
std::vector<Tensors> by_dtype(const Tensors& parameters) {
  std::vector<Tensors> groups;
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad()) continue;
    const auto same = [&](const Tensors& g) { return g[0].dtype() == parameter.grad().dtype(); };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), Tensors{});
    group->push_back(parameter.grad());
  }
  return groups;
}

/// _amp_foreach_non_finite_check_and_unscale_.
void check_and_unscale(Session& s, Tensors gradients, const Tensor& found_inf,
                       const Tensor& inverse_scale) {
  static constexpr Operator op{"aten._amp_foreach_non_finite_check_and_unscale_.default",
                               OperatorKind::pointwise};
  gradients.push_back(found_inf);
  gradients.push_back(inverse_scale);
  dispatched(s, op, gradients, Tensors{});
}

}  // namespace

Tensor GradScaler::scale(Session& s, const Tensor& loss) {
  if (!scale_) {
    scale_ = full(s, {}, {Dtype::float32, loss.device()});
    growth_tracker_ = full(s, {}, {Dtype::int32, loss.device()});
  }
  const Tensor scaled = mul(s, loss, to(s, scale_, {.device = loss.device()}));
  return sharing_.of_result ? to(s, scaled, loss.dtype()) : scaled;
}

void GradScaler::share_check(Session& s, const Tensor& found_inf) const {
  if (!sharing_.of_each_check || sharing_.of_each_check->size() == 1) return;
  const Tensor largest = functional_all_reduce(s, *sharing_.of_each_check, found_inf, "max");
  wait_tensor(s, largest);
  copy_(s, found_inf, largest);
}

/// The process group sends what is on the device.
void GradScaler::share_result(Session& s, const Tensor& found_inf) const {
  if (!sharing_.of_result) return;
  const Tensor sent = to(s, found_inf, {.device = scale_.device()});
  s.wait_work(all_reduce(s, *sharing_.of_result, sent, "SUM", true));
  if (sent.storage() != found_inf.storage()) copy_(s, found_inf, sent);
}

/// _unscale_grads_: both numbers are copied for the device, also where they are on it.
Tensor GradScaler::found_inf_after_unscaling(Session& s, const ParameterOptimizer& optimizer,
                                             const Tensor& inverse_scale,
                                             const Tensor& found_inf) const {
  const NoGrad no_grad(s);
  Tensor found;
  Tensor inverse;
  for (Tensors& gradients : by_dtype(optimizer.parameters())) {
    if (!found) {
      const Device device = gradients[0].device();
      found = to(s, found_inf, {.device = device, .copy = true});
      inverse = to(s, inverse_scale, {.device = device, .copy = true});
    }
    check_and_unscale(s, std::move(gradients), found, inverse);
    share_check(s, found);
  }
  // With original parameters a rank may hold no part of any.
  if (!found && sharing_.of_result) found = to(s, found_inf, {.copy = true});
  if (!found)
    throw Error({.where = "GradScaler",
                 .what = "No inf checks were recorded for this optimizer.",
                 .way_out = {}});
  return found;
}

void GradScaler::unscale(Session& s, const ParameterOptimizer& optimizer) {
  Tensor inverse = to(s, scale_, Dtype::float64);
  inverse = reciprocal(s, std::move(inverse));
  inverse = to(s, std::move(inverse), Dtype::float32);
  const Tensor found_inf = full(s, {}, like(scale_));
  found_inf_ = found_inf_after_unscaling(s, optimizer, inverse, found_inf);
  share_result(s, found_inf_);
  unscaled_ = true;
}

void GradScaler::step_fused(Session& s, ParameterOptimizer& optimizer) {
  if (!unscaled_) {
    const Tensor one = full(s, {}, like(scale_));
    const Tensor found_inf = full(s, {}, like(scale_));
    found_inf_ = found_inf_after_unscaling(s, optimizer, one, found_inf);
  }
  // Python's sum() begins with 0, and a scale that nobody set is 1.
  const Tensor found_inf = add(s, found_inf_, 0);
  optimizer.step(s, {.scale = unscaled_ ? Tensor() : mul(s, scale_, 1), .found_inf = found_inf});
}

void GradScaler::step(Session& s, ParameterOptimizer& optimizer) {
  if (!scale_)
    throw Error({.where = "GradScaler.step",
                 .what = "Attempted step but _scale is None.",
                 .way_out = "scale the loss first"});
  if (optimizer.settings().implementation == OptimizerImplementation::fused)
    return step_fused(s, optimizer);
  if (!unscaled_) unscale(s, optimizer);
  item(s, found_inf_);
  optimizer.step(s);
}

void GradScaler::update(Session& s) {
  static constexpr Operator op{"aten._amp_update_scale_.default", OperatorKind::pointwise};
  const Tensor found_inf = to(s, found_inf_, {.device = scale_.device()});
  dispatched(s, op, {&scale_, &growth_tracker_, &found_inf}, {&scale_});
  found_inf_.reset();
  unscaled_ = false;
}

}  // namespace shardscope::eager
