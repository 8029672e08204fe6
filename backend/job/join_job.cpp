#include "backend/job/join_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "backend/comm/mpi/communicator.h"

namespace shardscope {
namespace {

bool meets_over_mpi(const Environment& environment) {
  const bool by_mpirun =
      environment.started_by == StartedBy::mpirun || environment.started_by == StartedBy::pmi;
  return by_mpirun && has_mpi();
}

/// An address of this host that the others reach, unless MASTER_ADDR names one.
std::string own_address(const Environment& environment) {
  if (environment.on_one_host()) return MeetingPoint{}.address;
  if (!environment.meeting_point.on_loopback()) return environment.meeting_point.address;
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::shared_ptr<JobSession> join_job(const Environment& environment,
                                     std::chrono::milliseconds deadline,
                                     const std::filesystem::path& flight_folder) {
  if (environment.world == 1) return nullptr;
  if (!meets_over_mpi(environment))
    return std::make_shared<JobSession>(environment, deadline, flight_folder, std::nullopt);

  Environment place = environment;
  std::optional<ListeningSocket> socket;
  if (environment.rank == 0) {
    using Reach = ListeningSocket::Reach;
    socket.emplace(environment.on_one_host() ? Reach::loopback : Reach::all_interfaces, 0);
    place.meeting_point = {.address = own_address(environment), .port = socket->port()};
  }
  place.meeting_point = share_over_mpi(environment, place.meeting_point);
  return std::make_shared<JobSession>(place, deadline, flight_folder, std::move(socket));
}

void refuse_to_join(const Environment& environment, const Error& error) {
  constexpr std::chrono::milliseconds longest{5000};
  if (meets_over_mpi(environment)) return;
  refuse_meeting(environment, fmt::format("rank 0 ended before the start: {}", error.what()),
                 longest);
}

}  // namespace shardscope
