// DeepSpeedZeroOptimizer_Stage3.
// Source: deepspeed 0.19.8, runtime/zero/stage3.py.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/pytorch/plans/deepspeed_zero3.h"
#include "core/pytorch/runtimes/deepspeed/parameter_offload.h"

namespace shardscope::eager::deepspeed {

class PartitionedOptimizer final : public ZeroOptimizerBase {
 public:
  /// `world`: all ranks; `secondary`: hpZ's group of this rank, or null.
  PartitionedOptimizer(Setup setup, Module& model, const ProcessGroup& world,
                       const ProcessGroup* secondary);

  void start_forward() override;
  void end_forward() override { offload_.end_forward(); }
  Tensor scale(const Tensor& loss) override;
  void end_backward() override;
  void step() override;
  void zero_grad() override;
  std::vector<HeldTensor> held() const override;
  void start_saving() override;
  void gather(const ParameterIndices& parameters) override { parameters_.gather_now(parameters); }
  void partition(const ParameterIndices& parameters) override;
  void end_saving() override;

 private:
  /// Parameters that the optimizer steps together.
  struct SubGroup {
    ParameterIndices parameters;
    Tensor flat;    ///< the rank's partitions; what parameters are gathered from
    Tensor master;  ///< float32, or `flat` itself
    Tensors averaged;
  };
  void make_sub_groups();
  Tensor defragmented(const std::vector<ParameterIndices>& groups);
  void initialize_states();
  void point_partitions();
  void register_gradient_hooks();

  void gradient_hook(std::size_t parameter);
  void add_to_bucket(std::size_t parameter);
  void reduce_and_partition();
  Tensors scattered(const ParameterIndices& parameters);
  Tensors all_reduced();
  void keep_partitions(const ParameterIndices& parameters, const Tensors& partitions);
  void offload(std::size_t parameter, const Tensor& gradient);
  void epilogue();

  void check_overflow();
  Tensor grad_norm(const SubGroup& group);
  Tensor offloaded_norm(const SubGroup& group);
  void step_sub_group(SubGroup& group, const Tensor& norm);

  bool offloads() const { return setup_.settings.offload_optimizer.device != OffloadDevice::none; }
  Device state_device() const { return offloads() ? Device::cpu : setup_.s.settings.device; }

  Setup setup_;
  const ProcessGroup& world_;
  ParameterOffload offload_;
  PartitionedParameters& parameters_;
  std::vector<SubGroup> sub_groups_;
  StreamId reduce_stream_;

  Tensor overflow_tracker_;  ///< inf_or_nan_tracker
  Tensor bucket_buffer_;
  ParameterIndices bucket_;
  std::int64_t bucket_elements_ = 0;
  std::deque<EventId> reduce_events_;
  Tensor partitions_;           ///< of gradients, of all sub-groups
  Tensors gradient_partition_;  ///< by parameter: its part
  Tensors master_gradient_;     ///< by parameter: its part of a master's; offload only
  Tensors offloaded_norms_;     ///< by parameter: of this step
  int micro_step_ = 0;
  bool epilogue_ran_ = false;
};

}  // namespace shardscope::eager::deepspeed
