// Stage 3's parameters: partitioned over the ranks, gathered when a module needs them.
// Source: deepspeed 0.19.8, runtime/zero/partition_parameters.py (Init).
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "core/pytorch/runtimes/deepspeed/setup.h"

namespace shardscope::eager::deepspeed {

/// What DeepSpeed hangs on a parameter.
struct PartitionedParameter {
  std::string name;
  Tensor parameter;
  Dims sizes;                           ///< ds_shape
  std::int64_t elements = 0;            ///< ds_numel
  std::int64_t partition_elements = 0;  ///< ds_tensor.ds_numel
  bool persistent = false;              ///< ds_persist
  GatherStatus status = GatherStatus::available;
  Tensor partition;              ///< ds_tensor
  Tensor secondary;              ///< ds_secondary_tensor of hpZ, or none
  std::set<int> active_modules;  ///< ds_active_sub_modules, by ds_id
};

/// An all-gather on its way.
class GatherHandle {
 public:
  virtual ~GatherHandle() = default;
  virtual const ParameterIndices& parameters() const = 0;
  /// On the current stream; the second time nothing happens.
  virtual void wait() = 0;
};

class PartitionedParameters {
 public:
  /// Broadcasts and partitions every parameter. `world`: all ranks; `secondary`: hpZ's group.
  PartitionedParameters(const Setup& setup, const ProcessGroup& world,
                        const ProcessGroup* secondary);

  PartitionedParameter& operator[](std::size_t i) { return all_[i]; }
  const PartitionedParameter& operator[](std::size_t i) const { return all_[i]; }
  std::size_t size() const { return all_.size(); }

  /// all_gather_coalesced: of parameters that are not available, in their order.
  std::shared_ptr<GatherHandle> gather(ParameterIndices parameters);
  /// all_gather: done when it returns; what is available already is left out.
  void gather_now(const ParameterIndices& parameters);
  /// partition(): frees a parameter that is available, and makes hpZ's second partition.
  void partition(std::size_t parameter);
  void drop_secondary();

 private:
  class Single;
  class Coalesced;
  class Several;
  class Alone;
  void first_partition(PartitionedParameter& p);
  void secondary_partition(PartitionedParameter& p);
  void free(PartitionedParameter& p);
  std::shared_ptr<GatherHandle> gather_one(std::size_t parameter);
  std::shared_ptr<GatherHandle> gather_alike(ParameterIndices parameters);
  std::shared_ptr<GatherHandle> take_own(ParameterIndices parameters);

  const Setup& setup_;
  const ProcessGroup& world_;
  const ProcessGroup* secondary_group_;
  std::vector<PartitionedParameter> all_;
};

}  // namespace shardscope::eager::deepspeed
