// saved_tensors_hooks for the length of a scope.
#pragma once

#include <memory>
#include <utility>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

/// `with torch.autograd.graph.saved_tensors_hooks(pack, unpack)`.
class SavedTensorScope {
 public:
  SavedTensorScope(Session& s, std::shared_ptr<SavedTensorHooks> hooks) : s_(s) {
    s_.saved_tensor_hooks.push_back(std::move(hooks));
  }
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
  ~SavedTensorScope() { s_.saved_tensor_hooks.pop_back(); }

 private:
  Session& s_;
};

}  // namespace shardscope::eager
