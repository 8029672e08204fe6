// One parameter under FSDP2: its shard, its gathered form, and which of them the module holds.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/fsdp2/settings.h"

namespace shardscope::eager::fsdp2 {

/// ParamModuleInfo: where a parameter is registered. The first place names it.
struct ParameterPlaces {
  struct Place {
    Module* module;
    std::size_t slot;  ///< in module->parameters
  };
  std::vector<Place> places;
};

/// FSDPParam of torch 2.15, _fsdp_param.py: of plain tensors, without all-gather extensions.
class Parameter {
 public:
  struct Settings {
    MeshInfoRef mesh;
    MeshInfoRef post_forward_mesh;  ///< null: stays unsharded after forward
    MixedPrecisionPolicy mixed_precision;
    std::optional<CpuOffloadPolicy> offload;
    int shard_dim = 0;
    GradientRule gradient_rule = {};
    GatherExtension gather_extension = {};
  };
  /// Cuts `original` and registers the shard in its place.
  Parameter(Session& s, const Tensor& original, ParameterPlaces places, const Settings& settings);

  const std::string& name() const;  ///< full, of its first place
  const Dims& size() const { return size_; }
  const Dims& sharded_size() const { return sharded_size_; }
  const Dims& padded_sharded_size() const { return padded_sharded_size_; }
  int shard_dim() const { return shard_dim_; }
  const MeshInfo& mesh() const { return *mesh_; }
  ShardedState state() const { return state_; }
  bool has_gather_extension() const { return static_cast<bool>(gather_extension_.before); }
  bool offloads() const { return offload_.has_value(); }
  bool pins_memory() const { return offload_ && offload_->pin_memory; }
  /// Elements kept after forward by a group resharded to a smaller mesh.
  std::int64_t post_forward_numel() const { return post_forward_data_.numel(); }

  Dtype original_dtype() const { return original_dtype_; }
  /// The compute dtype where it is another than the original one.
  std::optional<Dtype> param_dtype() const { return param_dtype_; }
  std::optional<Dtype> reduce_dtype() const { return reduce_dtype_; }
  Dtype compute_dtype() const { return param_dtype_.value_or(original_dtype_); }
  /// The dtype in which gradients accumulate without reduction.
  Dtype unsharded_grad_dtype() const { return reduce_dtype_.value_or(original_dtype_); }
  Dtype sharded_grad_dtype() const { return original_dtype_; }

  /// The gradient of the unsharded parameter, as it lies; its last handle where it is replaced.
  Tensor unsharded_gradient(Session& s) const;
  bool may_reduce_outside() const { return gradient_rule_.may_reduce; }

  /// The leaf that the optimizer steps: a DTensor, here its local tensor.
  const Tensor& sharded_param() const { return sharded_param_; }
  /// None before the first all-gather.
  const Tensor& unsharded_param() const { return unsharded_param_; }
  const Tensor& gathered() const { return gathered_; }

  /// DTensor.full_tensor() of sharded_param(), in its own dtype. Its gradient is cut, not reduced.
  /// Error where the shard is on the host.
  Tensor full_tensor(Session& s) const;

  /// Takes the dtype that the parameter has by now; lazy initialization.
  void init_dtypes();
  /// The shard may have been replaced (to_empty, a load): take it over, padded if need be.
  void reset_sharded_param(Session& s);

  /// The 1-D tensors that go into an all-gather in the state that it is in.
  const Tensor& shard_to_gather() const;
  Tensor all_gather_input(Session& s) const;
  void init_gathered(Session& s, std::int64_t input_numel, Dtype dtype, int world);
  void alloc_gathered();
  void init_unsharded_param(Session& s);

  void to_sharded();
  void to_sharded_post_forward(Session& s);
  void to_unsharded();
  void set_keep_unsharded_storage(bool keep) { keep_unsharded_storage_ = keep; }

  /// The end of the last gradient's copy to the host; the host waits for it.
  std::optional<EventId> grad_offload_event;

 private:
  void init_sharded_param(Session& s, const Tensor& original);
  void register_on_modules(const Tensor& tensor);
  void free_unsharded();

  ParameterPlaces places_;
  std::string name_;
  MeshInfoRef mesh_, post_forward_mesh_;
  MixedPrecisionPolicy policy_;
  std::optional<CpuOffloadPolicy> offload_;
  int shard_dim_;
  GradientRule gradient_rule_;
  GatherExtension gather_extension_;
  Dims size_, sharded_size_, padded_sharded_size_;
  Dtype original_dtype_;
  std::optional<Dtype> param_dtype_, reduce_dtype_;
  ShardedState state_ = ShardedState::sharded;
  bool keep_unsharded_storage_ = false;

  Tensor sharded_data_;  ///< 1-D, padded
  Tensor sharded_param_;
  Tensor post_forward_data_;  ///< 1-D
  Tensor post_forward_param_;
  Tensor gathered_;  ///< 1-D: the all-gather's output for it, the storage of unsharded_param_
  Tensor unsharded_param_;
};

}  // namespace shardscope::eager::fsdp2
