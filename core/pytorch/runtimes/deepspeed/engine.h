// DeepSpeedEngine of ZeRO stages 1, 2 and 3: what deepspeed.initialize returns.
// Source: deepspeed 0.19.8, runtime/engine.py.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/process_group.h"
#include "core/pytorch/runtimes/deepspeed/settings.h"
#include "core/pytorch/runtimes/deepspeed/setup.h"

namespace shardscope::eager::deepspeed {

class Engine {
 public:
  struct Request {
    Module& model;
    DeepSpeedSettings settings;
    /// Parameters of each group of the optimizer; empty: one group of all that are trained.
    std::vector<ParameterIndices> optimizer_groups = {};
    OptimizerSettings optimizer = {};
    Watchers watchers = {};  ///< not owned
  };
  /// Moves the parameters to their dtype, broadcasts them and partitions states. Throws Error for
  /// settings whose steps are not modelled, naming the key.
  Engine(Session& s, ProcessGroups& groups, Request request);

  /// named_parameters() of the model; what watchers' indices refer to.
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  Tensors forward(Arguments arguments);
  void backward(const Tensor& loss);
  /// Steps and clears gradients where an accumulation ends.
  void step();
  /// Counts so many micro-batches that are not run: the accumulation ends earlier by them.
  void leave_out(int micro_batches) { micro_steps_ += micro_batches; }
  /// What rank 0 has on its host when the parameters were gathered module by module; other ranks
  /// have nothing.
  std::vector<std::pair<std::string, Tensor>> consolidated(bool trainable_only);
  int stage() const { return settings_.stage; }
  /// What DeepSpeed holds now by itself, with the state of the optimizer: flat parameters, masters,
  /// buckets, gradients on their way.
  std::vector<HeldTensor> held() const;
  /// What the optimizer holds.
  const MasterOptimizer& master_optimizer() const { return master_optimizer_; }

 private:
  bool at_boundary() const;
  ParameterIndices indices_of(const Module& module) const;

  Session& s_;
  int rank_;
  Module& model_;
  DeepSpeedSettings settings_;
  Watchers watchers_;
  std::vector<NamedParameter> parameters_;
  std::vector<ParameterIndices> groups_;
  MasterOptimizer master_optimizer_;
  std::unique_ptr<ZeroOptimizerBase> optimizer_;
  Tensor norm_;  ///< _global_grad_norm: keeps the last one until there is another
  std::int64_t micro_steps_ = 0;
};

}  // namespace shardscope::eager::deepspeed
