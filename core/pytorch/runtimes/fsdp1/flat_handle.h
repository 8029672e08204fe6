// A unit's FlatParameter at run time: its storages and the views that modules compute with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/module.h"
#include "core/pytorch/engine/multi_grad_hook.h"
#include "core/pytorch/runtimes/fsdp1/unit.h"

namespace shardscope::eager::fsdp1 {

/// Where a module keeps a parameter.
struct ParameterPlace {
  Module* module = nullptr;
  std::size_t at = 0;  ///< in module->parameters
  Module::NamedTensor& named() const { return module->parameters[at]; }
  Tensor& tensor() const { return named().tensor; }
};

/// FlatParamHandle with its FlatParameter. Source: torch 2.15, _flat_param.py.
class FlatHandle {
 public:
  struct Alias {
    ParameterPlace place;
    std::size_t first = 0;  ///< index of the parameter that it is
  };
  struct Input {
    std::vector<ParameterPlace> places;  ///< of the plan's parameters, in flat order
    std::vector<Alias> aliases;
    Module* fully_sharded_module = nullptr;
  };
  /// What the forward and backward passes note.
  struct Progress {
    HandleState state = HandleState::idle;
    std::optional<std::size_t> pre_forward_index;
    std::optional<std::size_t> post_forward_index;
    bool needs_pre_forward_unshard = false;
    bool needs_pre_backward_unshard = false;
    bool prefetched = false;
    bool ran_pre_backward_hook = false;
    bool post_backward_called = false;
    bool got_gradient = false;  ///< in any iteration
  };

  /// Flattens the parameters; the modules compute with views from now on.
  FlatHandle(Session& s, Unit& unit, Input input);
  FlatHandle(const FlatHandle&) = delete;
  FlatHandle& operator=(const FlatHandle&) = delete;

  void shard(Session& s);
  /// The storages that unshards will use are allocated and freed again, as a lazy initialization.
  void init_attributes(Session& s);

  // Unsharding.
  /// Whether anything was done that the unshard has to wait for.
  bool pre_unshard(Session& s);
  void unshard(Session& s);
  void post_unshard(Session& s);
  /// In full precision it also lets go of what is unsharded in the low one.
  bool needs_unshard();
  void reshard(Session& s, bool free_unsharded);
  void post_reshard(Session& s);

  // Gradients.
  void prepare_gradient_for_backward(Session& s);
  void prepare_gradient_for_optimizer(Session& s);
  void unshard_gradient(Session& s);
  void reshard_gradient(Session& s);
  void use_unsharded_gradient_views(Session& s);
  void use_sharded_gradient_views(Session& s);
  void reset_gradient_is_none();
  /// use_orig_params: the flat gradient goes when all of the parameters' gradients are gone.
  void reset_gradient_info_if_needed();
  /// The gradient that this rank's shard has; None: none.
  const Tensor& sharded_gradient() const;

  // Views.
  void use_unsharded_views(Session& s, bool as_parameters);
  void use_sharded_views(Session& s);
  /// Views of a tensor laid out like the unsharded flat parameter, one a parameter.
  Tensors unflat_views(Session& s, const Tensor& flat) const;

  // For summon_full_params and state dicts.
  void offload_to_cpu(Session& s);
  void restore_from_cpu(Session& s);
  void write_back_to_local_shard(Session& s, bool gradient_too);
  /// The part of a flat tensor that this rank holds, without padding.
  Tensor unpadded_shard(Session& s, const Tensor& flat) const;
  /// Before the first forward: flat_param.data = flat_param.to(dtype), and _orig_param_dtype.
  void cast(Session& s, Dtype dtype);
  /// flat_param.data = flat_param.to(device).
  void move_to(Session& s, Device device, bool non_blocking);

  Unit& unit() const { return unit_; }
  const FlatParameter& layout() const { return unit_.plan.flat; }
  bool is_sharded_strategy() const { return unit_.plan.strategy != ShardingStrategy::no_shard; }
  bool reshards_after_forward() const;
  bool uses_original_parameters() const { return unit_.shared.options.use_original_parameters; }
  bool uses_parameter_precision() const { return compute_dtype_ != original_dtype_; }
  bool forces_full_precision() const;
  bool skipped_sharded_views() const { return unsharded_for_skipped_views_.defined(); }
  Dtype original_dtype() const { return original_dtype_; }
  Dtype reduce_dtype() const { return reduce_dtype_; }
  std::int64_t unpadded_elements() const { return layout().unpadded_elements; }

  const Dims& shape(std::size_t i) const { return shapes_[i]; }
  const std::vector<ParameterPlace>& places() const { return places_; }
  const std::vector<Alias>& aliases() const { return aliases_; }
  const Tensor& flat() const { return flat_; }
  const Tensor& local_shard() const { return local_shard_; }
  const Tensor& full_padded() const { return full_padded_; }
  const Tensor& full_precision_padded() const { return full_precision_padded_; }
  /// use_orig_params: the parameters that the optimizer gets.
  const Tensors& parameters() const { return parameters_; }
  /// The part of parameter `i` in this rank's shard.
  std::optional<ParameterPart> part(std::size_t i) const;

  // The post-backward hook, at the flat parameter's AccumulateGrad.
  bool has_post_backward_hook() const { return post_backward_hook_.has_value(); }
  void register_post_backward_hook(Session& s, NodePostHook hook);
  /// Of a frozen unit: when the gradients of its inputs are there.
  void register_reshard_only_hook(Session& s, const Tensors& inputs, MultiGradHook hook);
  void remove_post_backward_hook();

  Progress progress;
  std::optional<Tensor> saved_gradient_shard;  ///< absent: the attribute does not exist
  Tensor cpu_gradient;                         ///< offload only

 private:
  /// The hook's node is held, so that the forwards of an iteration share it.
  struct PostBackwardHook {
    NodeRef node;  ///< none: a multi-grad hook
    HookHandle handle;
    MultiGradHandle of_inputs;  ///< of a multi-grad hook
  };

  void flatten(Session& s);
  Tensor padding(Session& s, std::int64_t elements) const;
  void use_low_precision_shard(Session& s);
  void free_low_precision_shard(Session& s);
  const Tensor& padded_unsharded();
  void all_gather(Session& s, const Tensor& padded);
  void use_unsharded_flat(Session& s, const Tensor& padded);
  void use_sharded_flat(Session& s);
  void free_unsharded_flat(Session& s);
  bool is_sharded(const Tensor& tensor) const;
  void use_view(Session& s, std::size_t i, const Tensor& view, bool as_parameter);
  void use_alias_views(bool as_parameters);
  /// Whether views that are no parameters stand among the modules' parameters all the same.
  bool registers_views() const {
    return uses_original_parameters() && progress.state == HandleState::forward;
  }
  void set_gradient_view(Session& s, const Tensor& parameter, const Tensor& view, bool as_data);
  void cast_gradient_for_optimizer(Session& s);
  bool write_back_original_parameters(Session& s);
  void write_back_gradient(Session& s, std::size_t i, const ParameterPart& part);

  Unit& unit_;
  std::vector<ParameterPlace> places_;
  std::vector<Alias> aliases_;
  Module* module_;
  Device device_;
  Dtype original_dtype_;
  Dtype compute_dtype_;
  Dtype reduce_dtype_;
  std::vector<Dims> shapes_;  ///< of the parameters
  std::vector<Dims> strides_;
  std::vector<bool> contiguous_;

  Tensor flat_;  ///< the FlatParameter; its data are the shard or what is unsharded
  Tensor local_shard_;
  Tensor low_precision_shard_;
  Tensor full_padded_;
  Tensor full_precision_padded_;
  std::optional<PostBackwardHook> post_backward_hook_;

  // use_orig_params only.
  Tensors parameters_;
  Tensors alias_parameters_;
  Tensors views_;  ///< _tensors: the views of the last forward
  std::vector<bool> gradient_is_none_;
  Tensor unsharded_for_skipped_views_;
};

}  // namespace shardscope::eager::fsdp1
