// A model as an export describes it: its forwards do what the traced step did.
#pragma once

#include <memory>

#include "core/model/model.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// The step of an export, played on the engine. Operators, what autograd keeps and when tensors go
/// are those of the trace; parameters, gradients and hooks are the runtime's.
class ExportedModel {
 public:
  /// Which of the programs, under the autocast that is on then.
  struct Use {
    std::int64_t batch = 1;
    std::int64_t sequence = 1;
    Dtype computes = Dtype::float32;  ///< dtype of parameters while the forward runs
    Dtype stores = Dtype::float32;    ///< of parameters, and of floating-point inputs
  };
  /// On the session's device, in train mode. `model.step` must be there. A forward throws Error
  /// where it has no such program.
  ExportedModel(Session& s, const shardscope::Model& model, const Use& use);
  ~ExportedModel();

  /// Takes the inputs of the export, positional ones first, and returns what the model returned.
  const std::shared_ptr<Module>& root() const { return root_; }
  /// A batch on `device`: one tensor an input.
  Tensors inputs(Session& s, Device device) const;
  /// What follows the model's forward, up to the loss. `outputs` are the root's, and are let go of
  /// as in the trace.
  Tensor loss(Session& s, Tensors outputs);

 private:
  class Player;
  std::shared_ptr<Player> player_;
  std::shared_ptr<Module> root_;
};

}  // namespace shardscope::eager
