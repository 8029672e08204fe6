// Collectives over MPI, across hosts.
#pragma once

#include <memory>

#include "backend/comm/communicator.h"
#include "backend/rendezvous/environment.h"

namespace shardscope {

/// Whether this program was built with MPI.
bool has_mpi();

/// Collective: the group of all ranks that mpirun or srun started; they must be those of
/// `environment`. Initialises MPI; it is finalised when the process exits in order, and aborts the
/// job when it exits after a failure.
std::unique_ptr<Communicator> make_mpi_communicator(const Environment& environment);

/// Collective over the ranks that mpirun started: all get rank 0's `point`.
MeetingPoint share_over_mpi(const Environment& environment, MeetingPoint point);

}  // namespace shardscope
