#include "core/pytorch/runtimes/deepspeed/parameter_offload.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/deepspeed/linear.h"

namespace shardscope::eager::deepspeed {

ParameterOffload::ParameterOffload(const Setup& setup, Module& model, const ProcessGroup& world,
                                   const ProcessGroup* secondary)
    : setup_(setup),
      parameters_(setup_, world, secondary),
      coordinator_(setup_, parameters_, world) {
  setup_.s.linear_replacement = zero3_linear;
  mark_persistent();
  model.forward_pre_hooks.push_back(
      [this](Session&, Module&, Arguments&) { coordinator_.reset_step(); });
  register_module_hooks(model);
}

void ParameterOffload::mark_persistent() {
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

void ParameterOffload::register_module_hooks(Module& model) {
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
void ParameterOffload::gather_what_is_read(std::size_t parameter) {
  if (!in_forward_ || parameters_[parameter].status != GatherStatus::not_available) return;
  ParameterIndices& own = forwards_.back()->fetched.parameters;
  if (std::ranges::find(own, parameter) == own.end()) {
    own.push_back(parameter);
    std::ranges::sort(own);
  }
  parameters_.gather_now({parameter});
}

/// PreBackwardFunctionForModule: its backward runs before the module's.
void ParameterOffload::hook_outputs(Session& s, Hooked& hooked, Tensors& outputs) {
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
void ParameterOffload::hook_inputs(Session& s, Hooked& hooked, Arguments& arguments) {
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

}  // namespace shardscope::eager::deepspeed
