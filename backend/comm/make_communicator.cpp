#include "backend/comm/make_communicator.h"

#include <optional>

#include <fmt/format.h>

#include "backend/comm/mpi_communicator.h"
#include "backend/comm/shared_memory_communicator.h"
#include "backend/comm/single_communicator.h"
#include "backend/launch/tcp_store.h"
#include "backend/launch/tcp_store_server.h"
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

/// The ranks of one host meet through the store only while they map each other's memory.
std::unique_ptr<Communicator> meet_in_shared_memory(const Environment& environment,
                                                    std::chrono::milliseconds deadline) {
  const MeetingPoint& point = environment.meeting_point;
  std::optional<TcpStoreServer> server;
  if (environment.rank == 0 && !point.hosted_by_launcher) {
    using Reach = ListeningSocket::Reach;
    const Reach reach = point.on_loopback() ? Reach::loopback : Reach::all_interfaces;
    server.emplace(ListeningSocket(reach, point.port));
  }
  TcpStore store(point.address, point.port, deadline);
  return make_shared_memory_communicator(environment.rank, environment.world, store, deadline);
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
                                                std::chrono::milliseconds deadline,
                                                DeviceMemory& memory) {
  const Transport transport = choose_transport(choice, environment, has_mpi());
  if (transport != Transport::single) check_host_memory(memory, environment.world);
  switch (transport) {
    case Transport::single:
      return make_single_communicator(memory);
    case Transport::shared_memory:
      return meet_in_shared_memory(environment, deadline);
    case Transport::mpi:
      break;
  }
  return make_mpi_communicator(environment, deadline);
}

}  // namespace shardscope
