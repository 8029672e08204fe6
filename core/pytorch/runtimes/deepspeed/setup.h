// What both of DeepSpeed's ZeRO optimizers are made from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/held_tensor.h"
#include "core/pytorch/runtimes/common/process_group.h"
#include "core/pytorch/runtimes/deepspeed/master_optimizer.h"
#include "core/pytorch/runtimes/deepspeed/settings.h"
#include "core/pytorch/runtimes/deepspeed/watcher.h"

namespace shardscope::eager::deepspeed {

/// get_norm_dtype of devices that know float64.
inline constexpr Dtype norm_dtype = Dtype::float64;

/// Everything refers to what outlives the optimizer.
struct Setup {
  Session& s;
  const DeepSpeedSettings& settings;
  const std::vector<NamedParameter>& parameters;  ///< named_parameters() of the model
  /// Parameters of each group of the optimizer.
  const std::vector<ParameterIndices>& groups;
  const ProcessGroup& group;  ///< data-parallel ranks
  const Watchers& watchers;
  MasterOptimizer& optimizer;

  /// Of parameters and activations; that of accumulated gradients, and on the wire.
  Dtype dtype() const { return settings.precision; }
  Dtype accumulation_dtype() const { return settings.accumulation_dtype.value_or(dtype()); }
  Dtype communication_dtype() const { return settings.communication_dtype.value_or(dtype()); }
  // get_accelerator(): the CPU's has neither streams nor events.
  bool has_streams() const { return s.settings.device == Device::cuda; }
  /// A stream of its own where communication overlaps.
  StreamId side_stream(const StreamUse& use) const {
    return has_streams() && settings.overlap_comm ? s.new_stream(use) : default_stream;
  }
  void wait_stream(StreamId waiting, StreamId of) const {
    if (has_streams()) s.wait_stream(waiting, of);
  }
  void record_stream(const Tensor& tensor, StreamId stream) const {
    if (has_streams()) s.record_stream(tensor, stream);
  }
  void synchronize() const {
    if (has_streams()) s.host_sync();
  }

  Visiting visiting(Site site, const Module* module = nullptr) const {
    return {s, watchers, {.site = site, .module = module}, module ? &module->name : nullptr};
  }
};

/// What the engine asks of a ZeRO optimizer. Source: deepspeed 0.19.8, runtime/base_optimizer.py.
class ZeroOptimizerBase {
 public:
  virtual ~ZeroOptimizerBase() = default;

  virtual void start_forward() = 0;  ///< clear_backward_seen_flag
  virtual void end_forward() {}      ///< _forward_epilogue
  virtual void start_backward() {}   ///< backward_prologue
  /// scale_if_loss: multiplied by the loss scale, also where that is 1.
  virtual Tensor scale(const Tensor& loss) = 0;
  /// After loss.backward(), in every micro-batch.
  virtual void end_backward() = 0;
  virtual void step() = 0;
  virtual void zero_grad() = 0;
  /// What it holds now, beside parameters and the state of the optimizer that it steps.
  virtual std::vector<HeldTensor> held() const = 0;
  // While the model is saved: parameters are partitioned but for those that are gathered. Nothing
  // where they are whole.
  virtual void start_saving() {}  ///< checkpoint_event_prologue
  virtual void gather(const ParameterIndices&) {}
  virtual void partition(const ParameterIndices&) {}
  virtual void end_saving() {}  ///< checkpoint_event_epilogue
  /// _global_grad_norm: of the last step.
  const Tensor& norm() const { return norm_; }
  /// Whether the next backward is the last one before a step.
  void set_boundary(bool boundary) { boundary_ = boundary; }

 protected:
  bool at_boundary() const { return boundary_; }
  void keep_norm(Tensor norm) { norm_ = std::move(norm); }

 private:
  bool boundary_ = true;
  Tensor norm_;
};

}  // namespace shardscope::eager::deepspeed
