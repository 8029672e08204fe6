// Which cores a rank of a host computes on.
#pragma once

namespace shardscope {

/// Cores that this process could use when it was first asked, before it was bound to any.
int cores_at_start();

/// One of the ranks that share a host, each with as many threads that compute.
struct RankOnHost {
  int rank = 0;  ///< among the ranks of the host
  int ranks = 1;
  int threads = 1;
};

/// Binds the calling thread, and the threads that it starts from then on, to this rank's part of
/// the cores that the process may use: cores in order, parts in order of rank. Only where the
/// ranks' threads fill these cores exactly. Otherwise a scheduler places threads better than an
/// order does, so that nothing changes: cores are left over, threads take turns, or mpirun or a
/// container has bound the process already. Whether it did.
bool bind_to_cores(const RankOnHost& place);

}  // namespace shardscope
