// One optimizer group of stages 1 and 2: flat parameters, and this rank's partition of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pytorch/plans/deepspeed_flat_groups.h"
#include "core/pytorch/runtimes/deepspeed/setup.h"

namespace shardscope::eager::deepspeed {

/// The part of a parameter that lies in one partition. Elements.
struct PartitionSlice {
  int partition = 0;
  std::int64_t offset = 0;  ///< from the parameter's start
  std::int64_t elements = 0;
};

class FlatGroup {
 public:
  /// Flattens the parameters, whose storage becomes the group's, and copies the rank's partition
  /// to a float32 master. Source: DeepSpeedZeroOptimizer.__init__, deepspeed 0.19.8.
  FlatGroup(const Setup& setup, const ZeroFlatGroup& layout);

  const ZeroFlatGroup& layout() const { return layout_; }
  const ParameterIndices& in_partition() const { return in_partition_; }
  const ParameterIndices& not_in_partition() const { return not_in_partition_; }
  /// Where the partition starts in the first of in_partition.
  std::int64_t first_offset() const { return first_offset_; }
  /// Of the parameter at `place` in the layout, in the order of its elements.
  std::vector<PartitionSlice> slices_of(std::size_t place) const;

  const Tensor& flat() const { return flat_; }
  const Tensor& master() const { return master_; }
  void add_held(std::size_t number, std::vector<HeldTensor>& all) const;
  /// This rank's part of `flat`.
  Tensor own_partition(Session& s) const;
  /// Makes the parameters views of the flat tensor again.
  void point_parameters(const Setup& setup) const;

 private:
  ZeroFlatGroup layout_;
  int rank_;
  ParameterIndices in_partition_, not_in_partition_;
  std::int64_t first_offset_ = 0;
  Tensor flat_, master_;
};

}  // namespace shardscope::eager::deepspeed
