// A model under a runtime's rules, as a training loop sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/grad_scaler.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/training/model_engine.h"

namespace shardscope::eager {

/// What get_model_state_dict(full_state_dict=True) is asked for.
struct FullStateDict {
  bool cpu_offload = false;
  bool trainable_only = false;  ///< ignore_frozen_params
};
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The entries that ignore_frozen_params takes out: named_parameters() that do not require grad.
/// It names a tied parameter once, so that its other names stay. Source: torch 2.15
/// distributed/checkpoint/state_dict.py, _get_model_state_dict.
std::unordered_set<std::string> frozen_names(Module& module);

class ParallelModel {
 public:
  virtual ~ParallelModel() = default;
  /// What is called with a batch.
  virtual Module& module() = 0;
  /// What the training loop's optimizer is given; none where `engine` has its own.
  virtual Tensors parameters();
  /// A micro-batch without communication of gradients; ends when the scope is let go.
  virtual std::shared_ptr<void> without_sync(Session&) { return nullptr; }
  /// Clips the gradients to a norm, as one does under this runtime.
  virtual void clip(Session& s);
  /// Whether read_gradient is to be asked.
  virtual bool rewrites_gradients() const { return false; }
  /// The gradient of a parameter as an optimizer reads it.
  virtual Tensor read_gradient(Session&, const Tensor& /*parameter*/,
                               const Tensor& gradient) const {
    return gradient;
  }
  /// How a scaler of float16's loss tells other ranks of an infinity.
  virtual InfinitySharing infinity_sharing() { return {}; }
  /// What is called in the place of module, loss and optimizer; or null.
  virtual ModelEngine* engine() { return nullptr; }
  /// The tensors of the whole model, by name.
  virtual NamedTensors full_state_dict(Session& s, const FullStateDict& wanted);
  /// What the optimizer's state is on this rank once it has been gathered to be saved whole;
  /// nothing where it is saved as it lies.
  virtual std::optional<Tensors> full_optimizer_state(Session&, const ParameterOptimizer&,
                                                      bool /*cpu_offload*/) {
    return std::nullopt;
  }
  /// SHARDED_STATE_DICT of the model, then of its optimizer. What this rank's host holds at most.
  virtual Bytes save_shards(Session&, const ParameterOptimizer&, bool /*trainable_only*/) {
    return {};
  }
  /// accelerate's load_fsdp_model under FSDP1, of a whole state or of shards. The values come from
  /// the host.
  virtual void load_state(Session&, bool /*shards*/, bool /*trainable_only*/) {}
  /// FSDP1's largest unit, unsharded in the dtype that it is kept in; with `trains` of those whose
  /// parameters train.
  virtual Bytes largest_unit(bool /*trains*/) const { return {}; }
};

}  // namespace shardscope::eager
