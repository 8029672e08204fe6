#include "backend/watch/meeting.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/process_identity.h"
#include "backend/base/time_limit.h"
#include "backend/watch/flight_recorder.h"
#include "backend/watch/watch_keys.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest_farewell{2500};
/// Opened with "" once all ranks are here, or with the reason why they do not meet.
constexpr const char* meeting_gate = "here/all";

/// The loopback socket listens at 127.0.0.1 alone.
bool serves_loopback(const MeetingPoint& point) {
  return point.on_loopback() && point.address != "::1";
}

std::optional<TcpStoreServer> serve(const Environment& environment,
                                    std::optional<ListeningSocket> socket) {
  const MeetingPoint& point = environment.meeting_point;
  if (environment.rank != 0 || point.hosted_by_launcher) return std::nullopt;
  if (!socket) {
    using Reach = ListeningSocket::Reach;
    socket.emplace(serves_loopback(point) ? Reach::loopback : Reach::all_interfaces, point.port);
  }
  return TcpStoreServer(std::move(*socket));
}

/// Until so many ranks are done with the store, or `longest` has passed.
void wait_until_ended(TcpStore& store, int ranks, milliseconds longest) {
  const TimeLimit limit(longest);
  while (store.add(ended_key, 0) < ranks && !limit.passed())
    std::this_thread::sleep_for(milliseconds(10));
}

}  // namespace

Meeting::Meeting(const Environment& environment, milliseconds deadline,
                 std::optional<ListeningSocket> socket)
    : rank_(environment.rank),
      world_(environment.world),
      deadline_(deadline),
      point_(environment.meeting_point),
      expected_at_end_(environment.world),
      server_(serve(environment, std::move(socket))),
      store_(server_ ? "127.0.0.1" : point_.address, server_ ? server_->port() : point_.port,
             deadline) {
  wait_for_all();
}

TcpStore Meeting::connect(milliseconds deadline) const {
  return {server_ ? "127.0.0.1" : point_.address, server_ ? server_->port() : point_.port,
          deadline};
}

/// The first one to lose patience says who is missing, and all give up with it.
void Meeting::wait_for_all() {
  store_.set(here_key(rank_), own_identity());
  if (store_.add("here", 1) == world_) store_.offer(meeting_gate, "");
  const std::optional<std::string> opened = store_.find(meeting_gate);
  const std::string missing = opened ? *opened : store_.offer(meeting_gate, missing_text());
  if (missing.empty()) {
    host_identity_ = store_.get(here_key(0));
    return;
  }
  store_.add(ended_key, 1);
  expected_at_end_ = static_cast<int>(store_.add("here", 0));
  wait_for_farewells();
  throw Error({.where = fmt::format("rank {}", rank_),
               .what = missing,
               .way_out = "see that all ranks were started, and their logs",
               .code = ExitCode::rank_lost});
}

std::string Meeting::missing_text() {
  std::vector<int> missing;
  for (int rank = 0; rank < world_; ++rank)
    if (!store_.peek(here_key(rank))) missing.push_back(rank);
  return fmt::format("rank{} {} of {} did not come to {}:{} within {} s",
                     missing.size() == 1 ? "" : "s", rank_ranges(missing), world_, point_.address,
                     point_.port, std::chrono::duration<double>(deadline_).count());
}

Meeting::~Meeting() { wait_for_farewells(); }

void Meeting::wait_for_farewells() {
  if (!server_) return;
  try {
    wait_until_ended(store_, expected_at_end_, longest_farewell);
  } catch (const Error&) {  // nobody to wait for can be asked about
  }
}

void refuse_meeting(const Environment& environment, const std::string& reason,
                    milliseconds longest) {
  if (environment.rank != 0 || environment.world == 1) return;
  try {
    const std::optional<TcpStoreServer> server = serve(environment, std::nullopt);
    if (!server) return;
    TcpStore store("127.0.0.1", server->port(), longest);
    store.offer(meeting_gate, reason);
    wait_until_ended(store, environment.world - 1, longest);
  } catch (const Error&) {  // the reason itself is what is told
  }
}

}  // namespace shardscope
