// NCCL's environment variables: what we set before the library reads them, and what a run says of
// them.
#pragma once

#include <string>

#include "backend/rendezvous/environment.h"

namespace shardscope {

struct NcclSituation {
  int rank = 0;
  bool shares_gpu = false;     ///< somewhere in the job, two ranks work on one GPU
  bool on_one_host = true;     ///< all of them
  bool deterministic = false;  ///< one algorithm and protocol for every size
};

/// Variables that NCCL 2.28 wants in this situation. Always NCCL_LAUNCH_ORDER_IMPLICIT=1: the
/// collectives of all communicators keep the order in which the program calls them (since 2.26).
/// Deterministic: a ring with the simple protocol, whose sums have the same order whatever the
/// size. Ranks that share a GPU look like hosts of their own (NCCL_HOSTID), as NCCL before 2.30
/// refuses two of them on one host (src/init.cc, "Duplicate GPU detected"); they talk over sockets,
/// on one host on the loopback interface, with few blocks, so that all of them fit on the GPU.
Variables nccl_defaults(const NcclSituation& situation);

/// Sets those that this process does not have yet: the user's own come first. Before NCCL is
/// loaded.
void set_missing(const Variables& variables);

/// "NCCL_ALGO=Ring NCCL_DEBUG=INFO": all of NCCL's among `variables`, by name.
std::string nccl_variables_text(const Variables& variables);

}  // namespace shardscope
