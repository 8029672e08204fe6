// How the ranks of a job meet, however they were started.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "backend/rendezvous/environment.h"
#include "backend/watch/job_session.h"
#include "core/base/error.h"

namespace shardscope {

/// Collective; null where there is one rank. Ranks that mpirun started learn over MPI where rank 0
/// listens, all others from MASTER_ADDR and MASTER_PORT or their likes. `deadline` is the longest
/// wait for a peer, here and in collectives; `flight_folder` takes the flight records.
std::shared_ptr<JobSession> join_job(const Environment& environment,
                                     std::chrono::milliseconds deadline,
                                     const std::filesystem::path& flight_folder = {});

/// For rank 0 where it ends with an error before it joins: the other ranks are told and end, too.
/// Waits for them for 5 s at most. Nothing where they meet over MPI: mpirun ends them.
void refuse_to_join(const Environment& environment, const Error& error);

}  // namespace shardscope
