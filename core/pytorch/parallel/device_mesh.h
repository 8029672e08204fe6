// torch.distributed.device_mesh: named axes over the ranks of a world.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::parallel {

struct MeshAxis {
  std::string name;  ///< "dp_shard"
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

/// Ranks of the axis; 1 where there is none of that name.
int size_of_axis(const std::vector<MeshAxis>& axes, std::string_view name);

/// init_device_mesh over the whole world, the last axis varying fastest. Example: axes dp_shard 2,
/// tp 4, rank 5: its dp_shard group is {1, 5}, its tp group {4, 5, 6, 7}.
class DeviceMesh {
 public:
  /// `groups` must outlive it. Error where the sizes do not multiply to the world.
  DeviceMesh(ProcessGroups& groups, std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  bool has(std::string_view axis) const;
  /// 1 of an axis that is not there.
  int size(std::string_view axis) const;
  /// Error where there is none.
  const ProcessGroup& group(std::string_view axis) const;
  /// mesh[outer, ..., inner]._flatten(): neighbouring axes as one.
  const ProcessGroup& flatten(std::string_view outer, std::string_view inner);

 private:
  std::size_t place_of(std::string_view axis) const;
  int stride_after(std::size_t place) const;

  ProcessGroups& all_;
  std::vector<MeshAxis> axes_;
  std::vector<const ProcessGroup*> groups_;
};

}  // namespace shardscope::eager::parallel
