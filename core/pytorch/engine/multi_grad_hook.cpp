#include "core/pytorch/engine/multi_grad_hook.h"

#include <algorithm>
#include <memory>

#include "core/pytorch/engine/engine.h"

namespace shardscope::eager {

/// One backward at a time is counted: a nested one
/// starts anew, as each has its own id.
struct SharedGradHooks {
  std::vector<NodeRef> nodes;
  MultiGradHook hook;
  std::int64_t task = -1;
  std::ptrdiff_t calls = 0;
  std::ptrdiff_t expected = 0;
  Tensors gradients;
};

namespace {

void note(Session& s, SharedGradHooks& all, std::size_t index, const Tensor& gradient) {
  const Engine& engine = s.engine();
  if (all.task != engine.graph_task_id()) {
    all.task = engine.graph_task_id();
    all.calls = 0;
    all.gradients.assign(all.nodes.size(), {});
    all.expected = std::count_if(all.nodes.begin(), all.nodes.end(),
                                 [&](const NodeRef& node) { return engine.will_execute(*node); });
  }
  all.gradients[index] = gradient;
  if (++all.calls != all.expected) return;
  const Tensors gradients = std::exchange(all.gradients, {});
  all.task = -1;
  all.hook(s, gradients);
}

}  // namespace

MultiGradHandle::Entry MultiGradHandle::entry_of(const Tensor& tensor, HookHandle handle) {
  if (tensor.is_leaf()) return {.leaf = tensor, .node = {}, .handle = handle};
  return {.leaf = {}, .node = tensor.grad_fn(), .handle = handle};
}

void MultiGradHandle::remove() {
  for (const Entry& entry : entries_) {
    if (entry.leaf) remove_hook(entry.leaf, entry.handle);
    if (entry.node) entry.node->remove_hook(entry.handle);
  }
  entries_.clear();
}

MultiGradHandle register_multi_grad_hook_all(Session& s, const Tensors& tensors,
                                             MultiGradHook hook) {
  const auto all = std::make_shared<SharedGradHooks>();
  all->hook = std::move(hook);
  for (const Tensor& tensor : tensors) all->nodes.push_back(gradient_edge(s, tensor).node);
  std::vector<MultiGradHandle::Entry> entries;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto each = [all, i](Session& in, const Tensor& gradient) {
      note(in, *all, i, gradient);
      return Tensor();
    };
    entries.push_back(MultiGradHandle::entry_of(tensors[i], register_hook(s, tensors[i], each)));
  }
  return MultiGradHandle(std::move(entries), all);
}

void forget_nodes(const std::weak_ptr<SharedGradHooks>& hooks) {
  const auto shared = hooks.lock();
  if (shared) std::exchange(shared->nodes, {}).clear();
}

MultiGradHandle register_multi_grad_hook_any(Session& s, const Tensors& tensors,
                                             const FirstGradHook& hook) {
  const auto last_task = std::make_shared<std::int64_t>(-1);
  std::vector<MultiGradHandle::Entry> entries;
  for (const Tensor& tensor : tensors) {
    if (!tensor.requires_grad()) continue;
    const auto each = [last_task, hook](Session& in, const Tensor& gradient) {
      const std::int64_t task = in.engine().graph_task_id();
      if (std::exchange(*last_task, task) != task) hook(in, gradient);
      return Tensor();
    };
    entries.push_back(MultiGradHandle::entry_of(tensor, register_hook(s, tensor, each)));
  }
  return MultiGradHandle(std::move(entries));
}

}  // namespace shardscope::eager
