#include "core/pytorch/runtimes/deepspeed/partitioned_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/linear.h"
#include "core/pytorch/runtimes/deepspeed/parameter_tree.h"

namespace shardscope::eager::deepspeed {

PartitionedOptimizer::PartitionedOptimizer(Setup setup, Module& model, const ProcessGroup& world,
                                           const ProcessGroup* secondary)
    : setup_(std::move(setup)),
      world_(world),
      parameters_(setup_, world, secondary),
      coordinator_(setup_, parameters_, world),
      reduce_stream_(setup_.side_stream({"reduce_and_partition", Stream::reduce})),
      gradient_partition_(setup_.parameters.size()),
      master_gradient_(setup_.parameters.size()),
      offloaded_norms_(setup_.parameters.size()) {
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
  initialize_states();
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

/// initialize_optimizer_states: gradients of zeros, dropped again unless they are offloaded.
void PartitionedOptimizer::initialize_states() {
  Session& s = setup_.s;
  std::int64_t largest = 0;
  for (const SubGroup& group : sub_groups_) largest = std::max(largest, group.flat.numel());
  const Like kind{.dtype = sub_groups_.front().master.dtype(), .device = state_device()};
  const Tensor shared = zeros(s, {largest}, kind);
  if (!offloads()) return;
  for (SubGroup& group : sub_groups_) {
    group.master.set_grad(zeros(s, {group.flat.numel()}, kind));
    std::int64_t at = 0;
    for (const std::size_t p : group.parameters) {
      master_gradient_[p] =
          narrow(s, group.master.grad(), 0, at, parameters_[p].partition_elements);
      at += parameters_[p].partition_elements;
    }
  }
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
  const Tensor whole = defragmented(groups);
  std::int64_t at = 0;
  for (ParameterIndices& group : groups) {
    std::int64_t elements = 0;
    for (const std::size_t p : group) elements += parameters_[p].partition_elements;
    sub_groups_.push_back({.parameters = std::move(group),
                           .flat = narrow(s, whole, 0, at, elements),
                           .master = {},
                           .averaged = {}});
    at += elements;
  }
  point_partitions();
  const Dtype dtype = setup_.settings.masters_in_precision ? setup_.dtype() : Dtype::float32;
  Tensor converted;  // lives until the next one is there
  for (SubGroup& group : sub_groups_) {
    converted = to(s, group.flat, {.dtype = dtype, .device = state_device()});
    group.master = detach(s, clone(s, converted));
    group.master.set_requires_grad(true);
  }
}

/// defragment: partitions leave the device before their common buffer is allocated there.
Tensor PartitionedOptimizer::defragmented(const std::vector<ParameterIndices>& groups) {
  Session& s = setup_.s;
  std::int64_t elements = 0;
  for (const ParameterIndices& group : groups)
    for (const std::size_t p : group) elements += parameters_[p].partition_elements;
  const Like kind = like(parameters_[groups.front().front()].partition);
  const Tensor on_host = empty(s, {elements}, {.dtype = kind.dtype, .device = Device::cpu});
  std::int64_t at = 0;
  for (const ParameterIndices& group : groups)
    for (const std::size_t p : group) {
      Tensor& partition = parameters_[p].partition;
      copy_(s, narrow(s, on_host, 0, at, partition.numel()), partition);
      at += partition.numel();
      partition = empty(s, {0}, kind);
    }
  if (setup_.settings.offload_param.device != OffloadDevice::none) return on_host;
  s.empty_cache();
  return to(s, on_host, {.device = kind.device});
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
  // Looked up, never walked.
  const auto index_of = std::make_shared<std::map<const TensorImpl*, std::size_t>>();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    (*index_of)[parameters_[i].parameter.impl()] = i;
  const auto own = [&](const Module& module) {
    ParameterIndices indices;
    for (const Module::NamedTensor& named : module.parameters)
      if (named.tensor) indices.push_back(index_of->at(named.tensor.impl()));
    return indices;
  };
  const auto hook = [&](const auto& self, Module& module) -> void {
    const int id = static_cast<int>(hooked_.size());
    Hooked& hooked = hooked_.emplace_back(
        Hooked{.fetched = {.id = id, .module = &module, .parameters = own(module)}});
    for (const Module::Child& child : module.children) self(self, *child.module);
    module.before_read = [this, index_of](const Tensor& parameter) {
      const auto found = index_of->find(parameter.impl());
      if (found != index_of->end()) gather_what_is_read(found->second);
    };
    module.forward_pre_hooks.push_back([this, &hooked](Session& s, Module&, Arguments&) {
      const NoGrad no_grad(s);
      forwards_.push_back(&hooked);
      coordinator_.fetch(hooked.fetched, true);
    });
    module.forward_hooks.push_back(
        [this, &hooked](Session& s, Module&, const Arguments&, Tensors&) {
          const NoGrad no_grad(s);
          forwards_.pop_back();
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

/// ZeROOrderedDict: a parameter that is read and not there is gathered. From then on it is one of
/// the module in whose forward that was.
void PartitionedOptimizer::gather_what_is_read(std::size_t parameter) {
  if (!in_forward_ || parameters_[parameter].status != GatherStatus::not_available) return;
  ParameterIndices& own = forwards_.back()->fetched.parameters;
  if (std::ranges::find(own, parameter) == own.end()) {
    own.push_back(parameter);
    std::ranges::sort(own);
  }
  parameters_.gather_now({parameter});
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
  in_forward_ = true;
}

std::vector<HeldTensor> PartitionedOptimizer::held() const {
  std::vector<HeldTensor> all;
  for (std::size_t i = 0; i < sub_groups_.size(); ++i) {
    const SubGroup& group = sub_groups_[i];
    all.push_back({group.flat, MemoryCategory::parameters, fmt::format("sub-group {}: shards", i)});
    all.push_back(
        {group.master, MemoryCategory::optimizer_states, fmt::format("sub-group {}: masters", i)});
    if (group.master.grad())
      all.push_back({group.master.grad(), MemoryCategory::gradients,
                     fmt::format("sub-group {}: gradients of masters", i)});
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (const PartitionedParameter& p = parameters_[i]; p.persistent && p.parameter.numel() > 0)
      all.push_back({p.parameter, MemoryCategory::parameters, p.name + " (persistent)"});
  all.push_back({partitions_, MemoryCategory::gradients, "gradient partitions"});
  if (bucket_buffer_)
    all.push_back({bucket_buffer_, MemoryCategory::communication, "reduce bucket"});
  return all;
}

Tensor PartitionedOptimizer::scale(const Tensor& loss) { return mul(setup_.s, loss, 1.0); }

void PartitionedOptimizer::zero_grad() {
  micro_step_ = 0;
  epilogue_ran_ = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].parameter.set_grad({});
}

}  // namespace shardscope::eager::deepspeed
