#include "core/pytorch/runtimes/tensor/tensor_parallel.h"

#include <iterator>
#include <memory>
#include <set>

#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::parallel {
namespace {

constexpr ParameterLayout of_rows{shard(0), shard(0)};
constexpr ParameterLayout of_columns{shard(1), shard(1)};
constexpr ParameterLayout of_embedding{shard(0), replicated};

/// install_forward: the hooks that a style has put behind the given ones go around the forward.
void put_around_forward(Module& module, std::size_t pre_hooks, std::size_t hooks) {
  const auto taken = [](auto& all, std::size_t from) {
    std::decay_t<decltype(all)> own(
        std::make_move_iterator(all.begin() + static_cast<std::ptrdiff_t>(from)),
        std::make_move_iterator(all.end()));
    all.resize(from);
    return own;
  };
  module.forward = [before = taken(module.forward_pre_hooks, pre_hooks),
                    after = taken(module.forward_hooks, hooks),
                    forward = std::move(module.forward)](Session& s, Module& me,
                                                         const Arguments& given) {
    Arguments arguments = given;
    for (const Module::PreHook& hook : before) hook(s, me, arguments);
    Tensors outputs = forward(s, me, arguments);
    for (const Module::ForwardHook& hook : after) hook(s, me, arguments, outputs);
    return outputs;
  };
}

/// ReplicatedWithGradAllReduce: hooks of what the module holds when it is first called.
void sum_gradients(const MeshAxisContext& axis, Module& module) {
  const auto hooked = std::make_shared<std::set<const TensorImpl*>>();
  module.forward = [axis, hooked, forward = std::move(module.forward)](Session& s, Module& me,
                                                                       const Arguments& arguments) {
    for (const Module::NamedTensor& own : me.parameters)
      if (s.grad_enabled && own.tensor && own.tensor.requires_grad() &&
          hooked->insert(own.tensor.impl()).second)
        register_post_accumulate_grad_hook(s, own.tensor, [axis](Session& in, const Tensor& leaf) {
          all_reduce(in, *axis.group, leaf.grad(), "sum");
        });
    return forward(s, me, arguments);
  };
}

}  // namespace

std::vector<std::vector<NamedParameter>> tied_parameters(Module& root) {
  std::map<const TensorImpl*, std::size_t> known;
  std::vector<std::vector<NamedParameter>> all;
  for (Module* module : modules_of(root))
    for (std::size_t i = 0; i < module->parameters.size(); ++i) {
      const Tensor& tensor = module->parameters[i].tensor;
      if (!tensor) continue;
      const auto [found, added] = known.emplace(tensor.impl(), all.size());
      if (added) all.emplace_back();
      all[found->second].push_back({.name = {}, .module = module, .place = i});
    }
  std::erase_if(all, [](const std::vector<NamedParameter>& same) { return same.size() < 2; });
  return all;
}

void tie_parameters(const std::vector<std::vector<NamedParameter>>& tied) {
  for (const std::vector<NamedParameter>& same : tied)
    for (const NamedParameter& other : same) other.tensor() = same.front().tensor();
}

TensorParallel::TensorParallel(Session& s, MeshAxisContext axis, Module& root,
                               const std::vector<TensorRule>& plan)
    : s_(s), axis_(axis) {
  const std::vector<std::vector<NamedParameter>> tied = tied_parameters(root);
  std::map<std::string, Module*> modules;
  for (Module* module : modules_of(root)) modules.emplace(module->name, module);
  for (const TensorRule& rule : plan)
    if (const auto found = modules.find(rule.module); found != modules.end())
      divide(*found->second, rule.style);
  tie_parameters(tied);
  for (const NamedParameter& parameter : named_parameters_of(root))
    if (const ParameterLayout* layout = layout_of(parameter))
      of_tensors_.emplace(parameter.tensor().impl(), *layout);
  // A head's gradient and a table's are summed as the head's lies.
  for (const std::vector<NamedParameter>& same : tied)
    if (const auto found = of_tensors_.find(same.front().tensor().impl());
        found != of_tensors_.end())
      found->second.gradient = found->second.placement;
}

void TensorParallel::note(Module& module, ParameterLayout layout) {
  for (std::size_t i = 0; i < module.parameters.size(); ++i)
    layouts_.insert_or_assign({&module, i}, layout);
}

void TensorParallel::divide(Module& module, TensorStyle style) {
  const std::size_t pre_hooks = module.forward_pre_hooks.size();
  const std::size_t hooks = module.forward_hooks.size();
  switch (style) {
    case TensorStyle::colwise:
      colwise_linear(s_, axis_, module, {});
      note(module, of_rows);
      break;
    case TensorStyle::colwise_gather_output:
      colwise_linear(s_, axis_, module, {.output = {.placement = replicated}});
      note(module, of_rows);
      break;
    case TensorStyle::rowwise:
      rowwise_linear(s_, axis_, module, replicated);
      note(module, of_columns);
      break;
    case TensorStyle::embedding_rowwise:
      rowwise_embedding(s_, axis_, module, replicated);
      note(module, of_embedding);
      break;
    case TensorStyle::replicated_with_grad_allreduce:
      return sum_gradients(axis_, module);
  }
  module.forward_hooks.push_back(
      [axis = axis_](Session& s, Module&, const Arguments&, Tensors& outputs) {
        axis.pending->wait(s, outputs[0]);
      });
  put_around_forward(module, pre_hooks, hooks);
}

const ParameterLayout* TensorParallel::layout_of(const NamedParameter& parameter) const {
  const auto found = layouts_.find({parameter.module, parameter.place});
  return found == layouts_.end() ? nullptr : &found->second;
}

fsdp2::GradientRule TensorParallel::gradient_rule(const std::vector<Module*>& modules,
                                                  const Tensor& parameter) const {
  const ParameterLayout* layout = nullptr;
  for (Module* module : modules)
    for (const NamedParameter& own : named_parameters_of(*module))
      if (own.tensor().impl() == parameter.impl()) layout = layout_of(own);
  if (!layout) return {};
  return {.redistribute =
              [this, layout = *layout](Session& s, const Tensor& gradient) {
                return gradient_like_parameter(s, axis_, gradient, layout);
              },
          .may_reduce = false};
}

Tensor TensorParallel::read_gradient(Session& s, const Tensor& parameter,
                                     const Tensor& gradient) const {
  const auto found = of_tensors_.find(parameter.impl());
  return found == of_tensors_.end() ? gradient
                                    : gradient_like_parameter(s, axis_, gradient, found->second);
}

}  // namespace shardscope::eager::parallel
