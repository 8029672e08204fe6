#include "core/runtime/deepspeed/partitioned_optimizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/pointwise.h"
#include "core/lower/pytorch/aten/views.h"
#include "core/runtime/collectives.h"
#include "core/runtime/deepspeed/linear.h"
#include "core/runtime/deepspeed/parameter_tree.h"

namespace shardscope::eager::deepspeed {

PartitionedOptimizer::PartitionedOptimizer(Setup setup, Module& model, const ProcessGroup& world,
                                           const ProcessGroup* secondary)
    : setup_(std::move(setup)),
      world_(world),
      parameters_(setup_, world, secondary),
      coordinator_(setup_, parameters_, world),
      reduce_stream_(setup_.side_stream()),
      gradient_partition_(setup_.parameters.size()) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  s.linear_replacement = zero3_linear;
  mark_persistent();
  model.forward_pre_hooks.push_back(
      [this](Session&, Module&, Arguments&) { coordinator_.reset_step(); });
  register_module_hooks(model);
  overflow_tracker_ = zeros(s, {1}, {.dtype = Dtype::boolean, .device = state_device()});
  barrier(s, world_);
  make_sub_groups();
  barrier(s, world_);
  for (SubGroup& group : sub_groups_) {
    // initialize_optimizer_states: gradients of zeros, dropped again unless they are offloaded.
    Tensor gradient =
        zeros(s, {group.master.numel()}, {.dtype = group.master.dtype(), .device = state_device()});
    if (offloads()) group.master.set_grad(gradient);
  }
  barrier(s, world_);
  if (setup_.settings.contiguous_gradients)
    bucket_buffer_ = empty(s, {setup_.settings.reduce_bucket_elements},
                           {.dtype = setup_.communication_dtype(), .device = s.settings.device});
  std::int64_t elements = 0;
  for (const SubGroup& group : sub_groups_) elements += group.flat.numel();
  partitions_ =
      zeros(s, {elements}, {.dtype = setup_.accumulation_dtype(), .device = state_device()});
  std::int64_t at = 0;
  for (const SubGroup& group : sub_groups_)
    for (const std::size_t p : group.parameters) {
      gradient_partition_[p] = narrow(s, partitions_, 0, at, parameters_[p].partition_elements);
      at += parameters_[p].partition_elements;
    }
  register_gradient_hooks();
}

void PartitionedOptimizer::mark_persistent() {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    PartitionedParameter& p = parameters_[i];
    if (p.elements + total > setup_.settings.model_persistence_elements) continue;
    if (p.elements > setup_.settings.param_persistence_elements) continue;
    p.persistent = true;
    persistent_.push_back(i);
    total += p.elements;
  }
}

/// _create_fp16_partitions_with_defragmentation and _create_fp32_partitions.
void PartitionedOptimizer::make_sub_groups() {
  Session& s = setup_.s;
  std::vector<ParameterIndices> groups;
  for (const ParameterIndices& given : setup_.groups) {
    ParameterIndices current;
    std::int64_t size = 0;
    for (const std::size_t p : given) {
      if (!parameters_[p].parameter.requires_grad()) continue;
      current.push_back(p);
      size += parameters_[p].partition_elements;
      if (size < setup_.settings.sub_group_elements) continue;
      groups.push_back(std::exchange(current, {}));
      size = 0;
    }
    if (!current.empty()) groups.push_back(std::move(current));
  }
  for (ParameterIndices& group : groups) {
    Tensors parts;
    for (const std::size_t p : group) parts.push_back(parameters_[p].partition);
    SubGroup made{.parameters = std::move(group),
                  .flat = parts.size() == 1 ? parts.front() : cat(s, parts),
                  .master = {},
                  .averaged = {}};
    sub_groups_.push_back(std::move(made));
  }
  point_partitions();
  for (SubGroup& group : sub_groups_) {
    const Dtype dtype = setup_.settings.masters_in_precision ? setup_.dtype() : Dtype::float32;
    const bool same = group.flat.dtype() == dtype && group.flat.device() == state_device();
    group.master = same ? detach(s, group.flat)
                        : clone(s, to(s, group.flat, {.dtype = dtype, .device = state_device()}));
    group.master.set_requires_grad(true);
  }
}

/// Partitions are parts of their sub-group's flat tensor.
void PartitionedOptimizer::point_partitions() {
  Session& s = setup_.s;
  for (const SubGroup& group : sub_groups_) {
    std::int64_t at = 0;
    for (const std::size_t p : group.parameters) {
      parameters_[p].partition = narrow(s, group.flat, 0, at, parameters_[p].partition_elements);
      at += parameters_[p].partition_elements;
    }
  }
}

void PartitionedOptimizer::register_module_hooks(Module& model) {
  std::map<const TensorImpl*, std::size_t> index_of;  // looked up, never walked
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    index_of[parameters_[i].parameter.impl()] = i;
  const auto own = [&](const Module& module) {
    ParameterIndices indices;
    for (const Module::NamedTensor& named : module.parameters)
      if (named.tensor) indices.push_back(index_of.at(named.tensor.impl()));
    return indices;
  };
  const auto hook = [&](const auto& self, Module& module) -> void {
    const int id = static_cast<int>(hooked_.size());
    Hooked& hooked = hooked_.emplace_back(
        Hooked{.fetched = {.id = id, .module = &module, .parameters = own(module)}});
    for (const Module::Child& child : module.children) self(self, *child.module);
    module.forward_pre_hooks.push_back([this, &hooked](Session& s, Module&, Arguments&) {
      const NoGrad no_grad(s);
      coordinator_.fetch(hooked.fetched, true);
    });
    module.forward_hooks.push_back(
        [this, &hooked](Session& s, Module&, const Arguments&, Tensors&) {
          const NoGrad no_grad(s);
          coordinator_.release(hooked.fetched, true);
        });
    module.forward_hooks.push_back(
        [this, &hooked](Session& s, Module&, const Arguments&, Tensors& outputs) {
          hook_outputs(s, hooked, outputs);
        });
    module.forward_pre_hooks.push_back([this, &hooked](Session& s, Module&, Arguments& arguments) {
      hook_inputs(s, hooked, arguments);
    });
  };
  hook(hook, model);
}

/// PreBackwardFunctionForModule: its backward runs before the module's.
void PartitionedOptimizer::hook_outputs(Session& s, Hooked& hooked, Tensors& outputs) {
  for (Tensor& output : outputs) {
    if (!output) continue;
    ++hooked.forwards;
    output = apply_function(
                 s, "PreBackwardFunctionForModuleBackward", {output},
                 [&](Session& session, const NodeRef&) { return Tensors{detach(session, output)}; },
                 [this, &hooked](Session& session, Node&, Tensors& gradients) {
                   const NoGrad no_grad(session);
                   if (hooked.forwards > 0) {
                     coordinator_.fetch(hooked.fetched, false);
                     --hooked.forwards;
                   }
                   return std::move(gradients);
                 })
                 .front();
  }
}

/// PostBackwardFunctionModule: its backward runs after the module's.
void PartitionedOptimizer::hook_inputs(Session& s, Hooked& hooked, Arguments& arguments) {
  hooked.gradients_to_come = 0;
  const std::size_t positional = arguments.positional < 0
                                     ? arguments.tensors.size()
                                     : static_cast<std::size_t>(arguments.positional);
  for (std::size_t i = 0; i < positional; ++i) {
    Tensor& input = arguments.tensors[i];
    if (!input) continue;
    if (input.requires_grad()) ++hooked.gradients_to_come;
    input = apply_function(
                s, "PostBackwardFunctionModuleBackward", {input},
                [&](Session& session, const NodeRef&) { return Tensors{detach(session, input)}; },
                [this, &hooked](Session& session, Node&, Tensors& gradients) {
                  const NoGrad no_grad(session);
                  if (--hooked.gradients_to_come == 0) coordinator_.release(hooked.fetched, false);
                  return std::move(gradients);
                })
                .front();
  }
}

void PartitionedOptimizer::register_gradient_hooks() {
  for (const SubGroup& group : sub_groups_)
    for (const std::size_t p : group.parameters) {
      parameters_.gather_now({p});
      register_post_accumulate_grad_hook(setup_.s, parameters_[p].parameter,
                                         [this, p](Session&, const Tensor&) { gradient_hook(p); });
      parameters_.partition(p);
    }
}

void PartitionedOptimizer::start_forward() {
  if (epilogue_ran_) ++micro_step_;
  epilogue_ran_ = false;
}

Tensor PartitionedOptimizer::scale(const Tensor& loss) { return mul(setup_.s, loss, 1.0); }

void PartitionedOptimizer::zero_grad() {
  micro_step_ = 0;
  epilogue_ran_ = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].parameter.set_grad({});
}

}  // namespace shardscope::eager::deepspeed
