// A model that is divided by transformers' own tensor-parallel plan. Source: transformers 5.24,
// distributed/tensor_parallel.py and, of gradients and their norm, trainer.py.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/pytorch/plans/tensor_plan.h"
#include "core/pytorch/runtimes/fsdp2/settings.h"
#include "core/pytorch/runtimes/tensor/styles.h"

namespace shardscope::eager::parallel {

/// Places of parameters that are registered twice or more, in the order of modules().
std::vector<std::vector<NamedParameter>> tied_parameters(Module& root);
/// tie_weights(): all places of each hold what its first one does.
void tie_parameters(const std::vector<std::vector<NamedParameter>>& tied);

/// apply_tensor_parallelism: cuts parameters and puts the plan around the modules' forwards. The
/// model is on the meta device, and tied parameters stay tied.
class TensorParallel {
 public:
  /// `axis` must outlive the model's forwards and backwards.
  TensorParallel(Session& s, MeshAxisContext axis, Module& root,
                 const std::vector<TensorRule>& plan);
  TensorParallel(const TensorParallel&) = delete;
  TensorParallel& operator=(const TensorParallel&) = delete;

  /// A DTensor's; null: the parameter is the same on all ranks of the axis.
  const ParameterLayout* layout_of(const NamedParameter& parameter) const;
  /// How a call of fully_shard on `modules` reads the gradient of one of their parameters.
  fsdp2::GradientRule gradient_rule(const std::vector<Module*>& modules,
                                    const Tensor& parameter) const;
  /// The gradient as an optimizer reads it, without FSDP2.
  Tensor read_gradient(Session& s, const Tensor& parameter, const Tensor& gradient) const;
  const MeshAxisContext& axis() const { return axis_; }

 private:
  void divide(Module& module, TensorStyle style);
  void note(Module& module, ParameterLayout layout);

  Session& s_;
  MeshAxisContext axis_;
  // Looked up, never walked: by place, and by parameter.
  std::map<std::pair<const Module*, std::size_t>, ParameterLayout> layouts_;
  std::map<const TensorImpl*, ParameterLayout> of_tensors_;
};

}  // namespace shardscope::eager::parallel
