// A model under a runtime's rules, as a training loop sees it.
#pragma once

#include <memory>

#include "core/lower/pytorch/module.h"

namespace shardscope::eager {

class ParallelModel {
 public:
  virtual ~ParallelModel() = default;
  /// What is called with a batch.
  virtual Module& module() = 0;
  /// What the optimizer is given.
  virtual Tensors parameters() = 0;
  /// A micro-batch without communication of gradients; ends when the scope is let go.
  virtual std::shared_ptr<void> without_sync(Session& s) = 0;
  /// Clips the gradients to a norm, as one does under this runtime.
  virtual void clip(Session& s) = 0;
};

/// The model alone, on one device.
std::unique_ptr<ParallelModel> plain_model(std::shared_ptr<Module> module);

}  // namespace shardscope::eager
