// What fully_shard and the set_* methods of its modules choose.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "core/base/dtype.h"
#include "core/pytorch/engine/tensor.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::fsdp2 {

/// FSDPMeshInfo; with `replicate`, HSDPMeshInfo.
struct MeshInfo {
  const ProcessGroup* shard = nullptr;
  const ProcessGroup* replicate = nullptr;       ///< null: not HSDP
  const ProcessGroup* reduce_scatter = nullptr;  ///< set_separate_reduce_scatter_group; null: shard
};
using MeshInfoRef = std::shared_ptr<MeshInfo>;

/// MixedPrecisionPolicy.
struct MixedPrecisionPolicy {
  std::optional<Dtype> param_dtype = {};
  std::optional<Dtype> reduce_dtype = {};
  std::optional<Dtype> output_dtype = {};
  bool cast_forward_inputs = true;
};

/// CPUOffloadPolicy; absent where it is given as an optional: OffloadPolicy.
struct CpuOffloadPolicy {
  bool pin_memory = true;
};

/// Absent: True, but False for the root.
using ReshardAfterForward = std::optional<std::variant<bool, int>>;

/// FSDPParam._get_grad_inner_tensor: the gradient of a DTensor as the parameter lies.
struct GradientRule {
  std::function<Tensor(Session& s, const Tensor& gradient)> redistribute = {};  ///< empty: as it is
  /// may_reduce_grad_outside_dp: gradients may be summed over ranks of another axis, in the dtype
  /// in which they are reduced.
  bool may_reduce = false;
};

/// Of a parameter of a tensor subclass: fsdp_pre_all_gather says what is gathered in the place of
/// its shard, one byte an element, fsdp_post_all_gather is told when that has been copied out.
struct GatherExtension {
  std::function<Tensor(Session& s, const Tensor& shard)> before = {};
  std::function<void()> after = {};
};

/// Arguments of fully_shard.
struct Options {
  MeshInfoRef mesh;
  ReshardAfterForward reshard_after_forward = {};
  MixedPrecisionPolicy mixed_precision = {};
  std::optional<CpuOffloadPolicy> offload = {};
  /// shard_placement_fn: the dimension that a parameter is cut along; empty: 0 for all.
  std::function<int(const Tensor& parameter)> shard_dim = {};
  /// shard_placement_fn of a mesh: parameters of each mesh are a group of their own; empty: all are
  /// of `mesh`.
  std::function<MeshInfoRef(const Tensor& parameter)> parameter_mesh = {};
  /// Of a parameter that is a DTensor: how its gradient becomes one that lies as it does; none for
  /// others. Asked once.
  std::function<GradientRule(const Tensor& parameter)> gradient_rule = {};
  /// Of a parameter of a subclass with fsdp_pre_all_gather; empty for others. Asked once.
  std::function<GatherExtension(const Tensor& parameter)> gather_extension = {};
  /// ignored_params: whether a parameter is left alone; empty: none is.
  std::function<bool(const Tensor& parameter)> ignored = {};
};

enum class TrainingState : std::uint8_t { forward, pre_backward, post_backward, idle };
enum class ShardedState : std::uint8_t { sharded, sharded_post_forward, unsharded };

}  // namespace shardscope::eager::fsdp2
