// torch.autograd.graph.register_multi_grad_hook.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager {

/// What the hooks of one registration share.
struct SharedGradHooks;

/// Its hooks, to be removed when they have served: until then they and the nodes that made the
/// tensors keep each other. A tensor that was made by an operator is not held itself.
class MultiGradHandle {
 public:
  struct Entry {
    Tensor leaf;   ///< or none
    NodeRef node;  ///< of a tensor that is no leaf
    HookHandle handle;
  };
  static Entry entry_of(const Tensor& tensor, HookHandle handle);
  MultiGradHandle() = default;
  explicit MultiGradHandle(std::vector<Entry> entries, std::weak_ptr<SharedGradHooks> shared = {})
      : entries_(std::move(entries)), shared_(std::move(shared)) {}
  void remove();
  /// For forget_nodes. Unlike this handle, it keeps no tensor and no node.
  const std::weak_ptr<SharedGradHooks>& shared() const { return shared_; }

 private:
  std::vector<Entry> entries_;
  std::weak_ptr<SharedGradHooks> shared_;
};

/// Mode "all": called once all gradients that this backward makes are there; None for the others.
using MultiGradHook = std::function<void(Session&, const Tensors& gradients)>;
MultiGradHandle register_multi_grad_hook_all(Session& s, const Tensors& tensors,
                                             MultiGradHook hook);
/// Ends the circle of the hooks of a registration in mode "all" and their nodes. No backward may
/// reach these hooks afterwards.
void forget_nodes(const std::weak_ptr<SharedGradHooks>& hooks);
/// Mode "any": called with the first of them.
using FirstGradHook = std::function<void(Session&, const Tensor& gradient)>;
MultiGradHandle register_multi_grad_hook_any(Session& s, const Tensors& tensors,
                                             const FirstGradHook& hook);

}  // namespace shardscope::eager
