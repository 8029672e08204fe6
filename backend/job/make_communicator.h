// Which communicator a job uses.
#pragma once

#include <chrono>
#include <memory>

#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "backend/rendezvous/environment.h"
#include "backend/watch/job_session.h"
#include "core/native/job.h"

namespace shardscope {

/// Collective: the group of all ranks. `automatic` takes the group of one where there is one rank,
/// and NCCL where `device` has memory of its own. On the host's memory (also: no device) it takes
/// MPI under mpirun and srun, and across hosts, where this program was built with it; shared memory
/// where all ranks are on one host. A choice that cannot be throws Error that says what to do.
/// `session` (join_job) watches over it; null where there is one rank.
/// `device` must outlive it.
std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::shared_ptr<JobSession> session,
                                                Device* device = nullptr);
/// The same with a session of its own, without flight records: `deadline` is the longest wait for a
/// peer, here and in collectives.
std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::chrono::milliseconds deadline,
                                                Device* device = nullptr);

/// What there is to choose among.
struct TransportMeans {
  bool has_mpi = false;
  bool on_gpus = false;  ///< the ranks' memory is not the host's
};
/// What `make_communicator` will take; throws Error where nothing fits.
enum class Transport { single, shared_memory, mpi, nccl };
Transport choose_transport(CommunicatorChoice choice, const Environment& environment,
                           const TransportMeans& means);

}  // namespace shardscope
