// A model that runs forward alone under DeepSpeed: deepspeed.initialize without an optimizer.
// Source: deepspeed 0.19.8, runtime/engine.py.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/runtimes/deepspeed/parameter_offload.h"

namespace shardscope::eager::deepspeed {

class InferenceEngine {
 public:
  /// Stage 3 partitions the parameters. Below it every rank has the whole model in the settings'
  /// precision (stage 0). `model` and `groups` must outlive it.
  InferenceEngine(Session& s, ProcessGroups& groups, Module& model, DeepSpeedSettings settings);
  InferenceEngine(const InferenceEngine&) = delete;
  InferenceEngine& operator=(const InferenceEngine&) = delete;

 private:
  DeepSpeedSettings settings_;
  std::vector<NamedParameter> parameters_;
  std::vector<ParameterIndices> groups_;
  Watchers watchers_;
  MasterOptimizer optimizer_;
  Setup setup_;
  std::unique_ptr<ParameterOffload> offload_;  ///< null below stage 3
};

}  // namespace shardscope::eager::deepspeed
