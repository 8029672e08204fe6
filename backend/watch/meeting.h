// Where the ranks of a job find each other, from its start to its end.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "backend/rendezvous/environment.h"
#include "backend/rendezvous/tcp_store.h"
#include "backend/rendezvous/tcp_store_server.h"

namespace shardscope {

/// The store of a job. Rank 0 serves it unless our launcher does.
class Meeting {
 public:
  /// Collective: waits until all ranks are here. Throws Error (ExitCode::rank_lost) that names
  /// those that did not come within `deadline`, or what keeps this one from the meeting point.
  /// `socket`: where rank 0 listens already; otherwise it binds the port of the meeting point.
  Meeting(const Environment& environment, std::chrono::milliseconds deadline,
          std::optional<ListeningSocket> socket = std::nullopt);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  /// Where this rank serves the store, waits a little until nobody needs it any more.
  ~Meeting();

  /// Of the thread that made this.
  TcpStore& store() { return store_; }
  /// Another connection, for another thread.
  TcpStore connect(std::chrono::milliseconds deadline) const;
  /// So many ranks will be done with it (ended_key); all unless said.
  void expect_at_end(int ranks) { expected_at_end_ = ranks; }

  int rank() const { return rank_; }
  int world() const { return world_; }
  std::chrono::milliseconds deadline() const { return deadline_; }
  /// Of rank 0, which serves the store where no launcher does.
  const std::string& host_identity() const { return host_identity_; }
  /// Of our launcher, which tells of failures itself.
  bool hosted_by_launcher() const { return point_.hosted_by_launcher; }

 private:
  void wait_for_all();
  std::string missing_text();
  void wait_for_farewells();

  int rank_ = 0;
  int world_ = 1;
  std::chrono::milliseconds deadline_;
  MeetingPoint point_;
  int expected_at_end_ = 0;
  std::string host_identity_;
  std::optional<TcpStoreServer> server_;
  TcpStore store_;
};

/// For rank 0 where it ends before the ranks meet: those that come within `longest` end with
/// `reason` as well, and do not wait for it. Nothing where the launcher serves the store, or the
/// port is taken.
void refuse_meeting(const Environment& environment, const std::string& reason,
                    std::chrono::milliseconds longest);

}  // namespace shardscope
