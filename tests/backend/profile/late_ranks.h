// A job in which it is known who comes late to a collective.
#pragma once

#include "backend/comm/communicator.h"

namespace shardscope::test {

/// Every rank of the job calls it. Two steps of one all-reduce each, to the first of which the last
/// rank comes 200 ms late, to the second rank 0. Throws where the split says otherwise.
void check_who_waits(Communicator& world);

/// Ranks whose clocks are not together: the last rank's is said to be 10 s behind the others', and
/// so it seems to come last to everything.
void check_that_clocks_count(Communicator& world);

}  // namespace shardscope::test
