#include "backend/comm/make_communicator.h"

#include <utility>

#include <fmt/format.h>

#include "backend/comm/join_job.h"
#include "backend/comm/mpi_communicator.h"
#include "backend/comm/shared_memory_communicator.h"
#include "backend/comm/single_communicator.h"
#include "backend/comm/watched_communicator.h"
#include "core/error.h"

namespace shardscope {
namespace {

bool started_with_mpi(const Environment& environment) {
  return environment.started_by == StartedBy::mpirun || environment.started_by == StartedBy::pmi ||
         environment.started_by == StartedBy::slurm;
}

void check_one_host(const Environment& environment) {
  if (environment.on_one_host()) return;
  throw Error({.where = "communicator shared_memory",
               .what = fmt::format("{} of {} ranks are on this host", environment.local_world,
                                   environment.world),
               .way_out = "start the ranks with mpirun or srun and use mpi"});
}

void check_host_memory(const DeviceMemory& memory, int world) {
  if (memory.is_host()) return;
  throw Error({.where = "--device cuda",
               .what = fmt::format(
                   "{} ranks on GPUs need NCCL, which this version does not drive yet", world),
               .way_out = "train with one rank, or take --device cpu"});
}

}  // namespace

Transport choose_transport(CommunicatorChoice choice, const Environment& environment,
                           bool has_mpi) {
  switch (choice) {
    case CommunicatorChoice::shared_memory:
      check_one_host(environment);
      return environment.world == 1 ? Transport::single : Transport::shared_memory;
    case CommunicatorChoice::mpi:
      return Transport::mpi;
    case CommunicatorChoice::automatic:
      break;
  }
  if (environment.world == 1) return Transport::single;
  if (has_mpi && started_with_mpi(environment)) return Transport::mpi;
  if (environment.on_one_host()) return Transport::shared_memory;
  throw Error(
      {.where = "communicator",
       .what = fmt::format("{} of {} ranks are on this host, and {}", environment.local_world,
                           environment.world,
                           has_mpi ? fmt::format("they were started by {}, not by mpirun or srun",
                                                 name_of(environment.started_by))
                                   : "this program was built without MPI"),
       .way_out = has_mpi ? "start them with mpirun or srun"
                          : "install libopenmpi-dev and build again, or use one host"});
}

std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::shared_ptr<JobSession> session,
                                                DeviceMemory& memory) {
  const Transport transport = choose_transport(choice, environment, has_mpi());
  if (transport == Transport::single) return make_single_communicator(memory);
  check_host_memory(memory, environment.world);
  if (!session) return make_mpi_communicator(environment);  // asked for by one rank alone
  Meeting& meeting = session->meeting;
  std::unique_ptr<Communicator> inner =
      transport == Transport::mpi
          ? make_mpi_communicator(environment)
          : make_shared_memory_communicator(environment.rank, environment.world, meeting.store(),
                                            meeting.deadline());
  return make_watched_communicator(std::move(session), std::move(inner));
}

std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::chrono::milliseconds deadline,
                                                DeviceMemory& memory) {
  choose_transport(choice, environment, has_mpi());  // before anybody waits for it
  return make_communicator(choice, environment, join_job(environment, deadline), memory);
}

}  // namespace shardscope
