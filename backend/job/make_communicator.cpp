#include "backend/job/make_communicator.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backend/comm/mpi/communicator.h"
#include "backend/comm/nccl/communicator.h"
#include "backend/comm/shared_memory/communicator.h"
#include "backend/comm/single/communicator.h"
#include "backend/job/join_job.h"
#include "backend/job/watched_communicator.h"
#include "core/base/error.h"

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

Transport choose_among_gpus(CommunicatorChoice choice, int world) {
  if (choice == CommunicatorChoice::nccl) return Transport::nccl;
  if (choice == CommunicatorChoice::automatic)
    return world == 1 ? Transport::single : Transport::nccl;
  throw Error({.where = "communicator",
               .what = "shared_memory and mpi move the host's memory, and this job's is a GPU's",
               .way_out = "leave the choice to auto, or take --device cpu"});
}

void share_by_store(TcpStore& store, int rank, std::span<std::byte> bytes) {
  constexpr std::string_view key = "nccl_unique_id";
  char* const begin = reinterpret_cast<char*>(bytes.data());
  if (rank == 0) return store.set(key, {begin, bytes.size()});
  const std::string value = store.get(key);
  if (value.size() != bytes.size()) {
    throw Error({.where = "communicator nccl",
                 .what = fmt::format("NCCL's unique id has {} B here and {} B on rank 0",
                                     bytes.size(), value.size()),
                 .way_out = "run the same program on all ranks"});
  }
  std::ranges::copy(value, begin);
}

std::unique_ptr<Communicator> meet_over_nccl(Meeting& meeting, Device& device) {
  // The watchdog, which can say whose fault it is, comes first.
  constexpr std::chrono::seconds head_start{1};
  return make_nccl_communicator(
      {meeting.rank(), meeting.world(), meeting.deadline() + head_start}, device,
      [&](std::span<std::byte> bytes) { share_by_store(meeting.store(), meeting.rank(), bytes); });
}

/// Of a rank that has no peers and yet asked for a library.
std::unique_ptr<Communicator> make_alone(Transport transport, const Environment& environment,
                                         Device* device) {
  if (transport == Transport::mpi) return make_mpi_communicator(environment);
  constexpr std::chrono::minutes longest_start{1};
  return make_nccl_communicator({.deadline = longest_start}, *device, [](std::span<std::byte>) {});
}

std::unique_ptr<Communicator> make_among(Transport transport, const Environment& environment,
                                         Meeting& meeting, Device* device) {
  if (transport == Transport::nccl) return meet_over_nccl(meeting, *device);
  if (transport == Transport::mpi) return make_mpi_communicator(environment);
  return make_shared_memory_communicator(environment.rank, environment.world, meeting.store(),
                                         meeting.deadline());
}

TransportMeans means_of(Device* device) {
  return {.has_mpi = has_mpi(), .on_gpus = device && !device->memory().is_host()};
}

}  // namespace

Transport choose_transport(CommunicatorChoice choice, const Environment& environment,
                           const TransportMeans& means) {
  if (means.on_gpus) return choose_among_gpus(choice, environment.world);
  switch (choice) {
    case CommunicatorChoice::nccl:
      throw Error({.where = "communicator nccl",
                   .what = "NCCL moves the memory of GPUs, and this job's is the host's",
                   .way_out = "take --device cuda, or leave the choice to auto"});
    case CommunicatorChoice::shared_memory:
      check_one_host(environment);
      return environment.world == 1 ? Transport::single : Transport::shared_memory;
    case CommunicatorChoice::mpi:
      return Transport::mpi;
    case CommunicatorChoice::automatic:
      break;
  }
  if (environment.world == 1) return Transport::single;
  if (means.has_mpi && started_with_mpi(environment)) return Transport::mpi;
  if (environment.on_one_host()) return Transport::shared_memory;
  throw Error(
      {.where = "communicator",
       .what = fmt::format(
           "{} of {} ranks are on this host, and {}", environment.local_world, environment.world,
           means.has_mpi ? fmt::format("they were started by {}, not by mpirun or srun",
                                       name_of(environment.started_by))
                         : "this program was built without MPI"),
       .way_out = means.has_mpi ? "start them with mpirun or srun"
                                : "install libopenmpi-dev and build again, or use one host"});
}

std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::shared_ptr<JobSession> session,
                                                Device* device) {
  const Transport transport = choose_transport(choice, environment, means_of(device));
  if (transport == Transport::single)
    return make_single_communicator(device ? device->memory() : host_memory());
  if (!session) return make_alone(transport, environment, device);
  std::unique_ptr<Communicator> inner =
      make_among(transport, environment, session->meeting, device);
  return make_watched_communicator(std::move(session), std::move(inner));
}

std::unique_ptr<Communicator> make_communicator(CommunicatorChoice choice,
                                                const Environment& environment,
                                                std::chrono::milliseconds deadline,
                                                Device* device) {
  choose_transport(choice, environment, means_of(device));  // before anybody waits for it
  return make_communicator(choice, environment, join_job(environment, deadline), device);
}

}  // namespace shardscope
