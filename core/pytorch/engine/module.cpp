#include "core/pytorch/engine/module.h"

#include <fmt/format.h>

#include <unordered_set>

#include "core/base/error.h"
#include "core/base/refusal.h"

namespace shardscope::eager {
namespace {

[[noreturn]] void refuse(const Module& module, std::string_view what, std::string_view own_name) {
  throw Error({.where = module.name,
               .what = fmt::format("{} has no {} \"{}\"", module.class_name, what, own_name),
               .way_out = {}});
}

Tensor& find(Module& module, std::vector<Module::NamedTensor>& tensors, std::string_view what,
             std::string_view own_name) {
  for (Module::NamedTensor& tensor : tensors)
    if (tensor.name == own_name) return tensor.tensor;
  refuse(module, what, own_name);
}

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// Each module of the tree once, with the name by which it is met first.
void visit(Module& module, const std::string& name, std::unordered_set<const Module*>& seen,
           const std::function<void(Module&, const std::string&)>& each) {
  if (!seen.insert(&module).second) return;
  each(module, name);
  for (const Module::Child& child : module.children)
    if (child.module) visit(*child.module, joined(name, child.name), seen, each);
}

/// The same without names, which take longer than all else.
void list(Module& module, std::unordered_set<const Module*>& seen, std::vector<Module*>& modules) {
  if (!seen.insert(&module).second) return;
  modules.push_back(&module);
  for (const Module::Child& child : module.children)
    if (child.module) list(*child.module, seen, modules);
}

}  // namespace

Module& Module::child(std::string_view own_name) const {
  for (const Child& entry : children)
    if (entry.name == own_name) return *entry.module;
  refuse(*this, "module", own_name);
}

const Dims& Module::sizes_of(std::string_view own_name) const {
  for (const NamedTensor& tensor : parameters)
    if (tensor.name == own_name) return tensor.tensor.sizes();
  refuse(*this, "parameter", own_name);
}

Tensor& Module::parameter(std::string_view own_name) {
  for (Parametrization& parametrized : parametrizations)
    if (parametrized.name == own_name && parametrized.compute) {
      if (!parametrized.value) parametrized.value = parametrized.compute();
      return parametrized.value;
    }
  Tensor& found = find(*this, parameters, "parameter", own_name);
  if (before_read && found) before_read(found);
  return found;
}

Tensor Module::read(std::size_t place) const {
  if (place >= parameters.size()) return {};
  const Tensor& tensor = parameters[place].tensor;
  if (before_read && tensor) before_read(tensor);
  return tensor;
}

Tensor& Module::buffer(std::string_view own_name) {
  return find(*this, buffers, "buffer", own_name);
}

namespace {

bool is_sharded(const Module& module, const Tensor& parameter) {
  return parameter && module.sharded != nullptr && module.sharded->is_sharded(parameter);
}

}  // namespace

Tensor whole_parameter(Session& s, Module& module, std::string_view own_name) {
  const Tensor found = module.parameter(own_name);
  return is_sharded(module, found) ? module.sharded->full_tensor(s, found) : found;
}

Tensor plain_parameter(Module& module, std::string_view own_name) {
  const Tensor found = module.parameter(own_name);
  if (!is_sharded(module, found)) return found;
  throw Refusal("RuntimeError",
                {.where = fmt::format("{}.{}", module.name, own_name),
                 .what = "FSDP2 has it sharded here, as a DTensor, and the loss multiplies it with "
                         "a plain tensor",
                 .way_out = "leave the fused loss out, or wrap by other modules"});
}

namespace {

/// A module is current while its pre-hooks and forward run, also where they end by an exception.
class Entered {
 public:
  Entered(Session& s, Module& module) : s_(s) { s_.modules.push_back(&module); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() { s_.modules.pop_back(); }

 private:
  Session& s_;
};

Tensors run_forward(Session& s, Module& module, Arguments& arguments) {
  const Entered entered(s, module);
  const auto pre_hooks = module.forward_pre_hooks;
  for (const Module::PreHook& hook : pre_hooks) hook(s, module, arguments);
  return module.forward(s, module, arguments);
}

Tensors run_to_the_end(Session& s, Module& module, Arguments& arguments) {
  if (module.always_forward_hooks.empty()) return run_forward(s, module, arguments);
  try {
    return run_forward(s, module, arguments);
  } catch (...) {
    Tensors none;
    for (const Module::ForwardHook& hook : module.always_forward_hooks)
      hook(s, module, arguments, none);
    throw;
  }
}

}  // namespace

Tensors call(Session& s, Module& module, Arguments arguments) {
  // _wrapped_call_impl's frame holds what the caller gave, whatever the hooks make of it.
  const Tensors given = module.forward_pre_hooks.empty() ? Tensors() : arguments.tensors;
  Arguments actual = std::move(arguments);
  Tensors outputs = run_to_the_end(s, module, actual);
  for (const Module::ForwardHook& hook : module.always_forward_hooks)
    hook(s, module, actual, outputs);
  const auto hooks = module.forward_hooks;
  for (const Module::ForwardHook& hook : hooks) hook(s, module, actual, outputs);
  return outputs;
}

Tensor call_one(Session& s, Module& module, Arguments arguments) {
  return std::move(call(s, module, std::move(arguments)).front());
}

std::vector<Module*> modules_of(Module& root) {
  std::vector<Module*> modules;
  std::unordered_set<const Module*> seen;
  list(root, seen, modules);
  return modules;
}

std::vector<NamedParameter> named_parameters_of(Module& root) {
  std::vector<NamedParameter> named;
  std::unordered_set<const TensorImpl*> listed;
  std::unordered_set<const Module*> seen;
  visit(root, "", seen, [&](Module& module, const std::string& name) {
    for (std::size_t i = 0; i < module.parameters.size(); ++i) {
      const Tensor& tensor = module.parameters[i].tensor;
      if (tensor.defined() && module.parameters[i].registered &&
          listed.insert(tensor.impl()).second)
        named.push_back({joined(name, module.parameters[i].name), &module, i});
    }
  });
  return named;
}

std::vector<std::pair<std::string, Tensor>> named_buffers_of(Module& root) {
  std::vector<std::pair<std::string, Tensor>> named;
  std::unordered_set<const TensorImpl*> listed;
  std::unordered_set<const Module*> seen;
  visit(root, "", seen, [&](Module& module, const std::string& name) {
    for (const Module::NamedTensor& buffer : module.buffers) {
      if (buffer.tensor.defined() && listed.insert(buffer.tensor.impl()).second)
        named.emplace_back(joined(name, buffer.name), buffer.tensor);
    }
  });
  return named;
}

}  // namespace shardscope::eager
