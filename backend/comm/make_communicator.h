// Which communicator a job uses.
#pragma once

#include <chrono>
#include <memory>

#include "backend/communicator.h"
#include "backend/device_memory.h"
#include "backend/launch/environment.h"
#include "backend/watch/job_session.h"
#include "core/config/job.h"

namespace shardscope {

/// Collective: the group of all ranks. `automatic` takes the group of one where there is one rank;
/// MPI under mpirun and srun, and across hosts, where this program was built with it; shared memory
/// where all ranks are on one host. A choice that cannot be throws Error that says what to do.
/// Several ranks must work on the host's memory: for GPUs there is no communicator yet.
/// `session` (join_job) watches over it; null where there is one rank.
std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::shared_ptr<JobSession> session,
                                                DeviceMemory& memory = host_memory());
/// The same with a session of its own, without flight records: `deadline` is the longest wait for a
/// peer, here and in collectives.
std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::chrono::milliseconds deadline,
                                                DeviceMemory& memory = host_memory());

/// What `make_communicator` will take; throws Error where nothing fits.
enum class Transport { single, shared_memory, mpi };
Transport choose_transport(CommunicatorChoice choice, const Environment& environment, bool has_mpi);

}  // namespace shardscope
