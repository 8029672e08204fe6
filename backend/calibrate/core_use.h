// How the ranks of one host use its cores.
#pragma once

#include <algorithm>

namespace shardscope {

/// Of a device whose kernels run on the host's cores.
struct CoreUse {
  int cores = 1;
  int ranks = 1;    ///< of this host
  int threads = 1;  ///< of each rank, that compute

  /// A communication thread has to take its core from one that computes.
  bool all_compute() const { return ranks * threads >= cores; }
  /// Threads that compute take turns.
  bool are_shared() const { return ranks * threads > cores; }
  /// Communication threads that take turns on a core.
  double communication_threads_per_core() const {
    return std::max(1.0, static_cast<double>(ranks) / cores);
  }
};

}  // namespace shardscope
