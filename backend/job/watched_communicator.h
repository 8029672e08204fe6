// A communicator whose calls stand in the flight record and under the watchdog.
#pragma once

#include <memory>

#include "backend/comm/communicator.h"
#include "backend/watch/job_session.h"

namespace shardscope {

/// `inner` is the group of all ranks. Errors of its collectives become the watchdog's verdict, the
/// same on all ranks.
std::unique_ptr<Communicator> make_watched_communicator(std::shared_ptr<JobSession> session,
                                                        std::unique_ptr<Communicator> inner);

}  // namespace shardscope
