// The communicator contract over whatever NCCL is loaded, on whatever GPU there is.
#pragma once

#include "backend/rendezvous/environment.h"

namespace shardscope::testing {

/// One rank's part in every check of the contract but those of the pairwise tree, with a
/// communicator of its own for each. All ranks of the job share one GPU, as `nccl_defaults` says.
/// Throws, with the check's name, where one does not hold.
void require_nccl_contract(const Environment& place);

}  // namespace shardscope::testing
