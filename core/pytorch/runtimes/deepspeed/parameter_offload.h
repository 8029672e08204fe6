// DeepSpeedZeRoOffload: partitions a model's parameters, and gathers a module's around its forward
// and backward. Source: deepspeed 0.19.8, runtime/zero/parameter_offload.py.
#pragma once

#include <deque>
#include <vector>

#include "core/pytorch/runtimes/deepspeed/coordinator.h"

namespace shardscope::eager::deepspeed {

class ParameterOffload {
 public:
  /// `setup` and `model` must outlive it. `world`: all ranks; `secondary`: hpZ's group of this
  /// rank, or null.
  ParameterOffload(const Setup& setup, Module& model, const ProcessGroup& world,
                   const ProcessGroup* secondary);

  PartitionedParameters& parameters() { return parameters_; }
  const PartitionedParameters& parameters() const { return parameters_; }
  Coordinator& coordinator() { return coordinator_; }
  /// Those that stay whole between steps.
  const ParameterIndices& persistent() const { return persistent_; }
  /// Around a forward of the model: what is read then, and not there, is gathered.
  void start_forward() { in_forward_ = true; }
  void end_forward() { in_forward_ = false; }

 private:
  /// Counts of a module's forwards and of its inputs' gradients to come.
  struct Hooked {
    FetchedModule fetched;
    int forwards = 0;           ///< applied_pre_backward_ref_cnt
    int gradients_to_come = 0;  ///< ds_grads_remaining
  };

  void mark_persistent();
  void register_module_hooks(Module& module);
  void gather_what_is_read(std::size_t parameter);
  void hook_inputs(Session& s, Hooked& hooked, Arguments& arguments);
  void hook_outputs(Session& s, Hooked& hooked, Tensors& outputs);

  const Setup& setup_;
  PartitionedParameters parameters_;
  Coordinator coordinator_;
  std::deque<Hooked> hooked_;      ///< addresses stay
  std::vector<Hooked*> forwards_;  ///< FWD_MODULE_STACK
  bool in_forward_ = false;        ///< of the model
  ParameterIndices persistent_;
};

}  // namespace shardscope::eager::deepspeed
