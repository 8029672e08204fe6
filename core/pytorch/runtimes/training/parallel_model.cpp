#include "core/pytorch/runtimes/training/parallel_model.h"

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"

namespace shardscope::eager {
namespace {

void add_entries(Session& s, Module& module, const std::string& name, const FullStateDict& wanted,
                 const std::unordered_set<std::string>& left_out, NamedTensors& entries) {
  const auto joined = [&](const std::string& own) { return name.empty() ? own : name + "." + own; };
  const auto add = [&](const Module::NamedTensor& own) {
    if (!own.tensor || left_out.contains(joined(own.name))) return;
    const NoGrad no_grad(s);
    entries.emplace_back(joined(own.name), wanted.cpu_offload
                                               ? to(s, own.tensor, {.device = Device::cpu})
                                               : own.tensor);
  };
  for (const Module::NamedTensor& own : module.parameters) add(own);
  for (const Module::NamedTensor& own : module.buffers)
    if (own.persistent) add(own);
  for (const Module::Child& child : module.children)
    add_entries(s, *child.module, joined(child.name), wanted, left_out, entries);
}

}  // namespace

std::unordered_set<std::string> frozen_names(Module& module) {
  std::unordered_set<std::string> names;
  for (const NamedParameter& p : named_parameters_of(module))
    if (!p.tensor().requires_grad()) names.insert(p.name);
  return names;
}

Tensors ParallelModel::parameters() {
  Tensors parameters;
  for (const NamedParameter& p : named_parameters_of(module())) parameters.push_back(p.tensor());
  return parameters;
}

void ParallelModel::clip(Session& s) { clip_grad_norm(s, parameters()); }

NamedTensors ParallelModel::full_state_dict(Session& s, const FullStateDict& wanted) {
  NamedTensors entries;
  const auto left_out =
      wanted.trainable_only ? frozen_names(module()) : std::unordered_set<std::string>();
  add_entries(s, module(), "", wanted, left_out, entries);
  return entries;
}

}  // namespace shardscope::eager
