// Which GPU of its host a rank works on.
#pragma once

#include <string_view>

#include "backend/launch/environment.h"

namespace shardscope {

struct GpuPlace {
  int index = 0;           ///< of the GPUs that the process may see
  bool is_shared = false;  ///< another rank of this host works on it, too
  bool operator==(const GpuPlace&) const = default;
};

/// One GPU a rank, in the order of local ranks; round again where there are more ranks than `gpus`.
/// Slurm may show each of its tasks the GPUs that are bound to it and no others (--gpus-per-task),
/// so that there too few are no sign of sharing.
GpuPlace gpu_place(const Environment& environment, int gpus);

inline constexpr std::string_view shared_gpu_warning =
    "several ranks share a GPU: good for tests of correctness, and the times mean nothing";

}  // namespace shardscope
