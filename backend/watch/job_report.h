// What the ranks of a job leave in its store about their end: the launcher's side.
#pragma once

#include <optional>
#include <string>

#include "backend/rendezvous/tcp_store.h"
#include "backend/watch/diagnosis.h"

namespace shardscope {

/// Asks a store on this host. One that does not answer knows nothing.
class JobReport {
 public:
  explicit JobReport(int port);

  /// Tells the ranks that one of them is gone.
  void tell_lost(int rank, const std::string& how);
  /// The error that ended the rank, as it would have printed it.
  std::optional<std::string> failure_of(int rank);
  /// What the ranks found out together.
  std::optional<Verdict> verdict();

 private:
  TcpStore store_;
};

}  // namespace shardscope
