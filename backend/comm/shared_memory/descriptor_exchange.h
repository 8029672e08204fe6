// Handing file descriptors among the processes of one host.
#pragma once

#include <chrono>
#include <vector>

#include "backend/base/file_descriptor.h"
#include "backend/rendezvous/tcp_store.h"

namespace shardscope {

/// Connects all ranks of a job on this host with rank 0 by Unix sockets that have no place in the
/// file system. Processes of other users are turned away.
class DescriptorExchange {
 public:
  struct Place {
    int rank = 0;
    int world = 1;
  };
  /// Collective. The store carries the name of rank 0's socket.
  DescriptorExchange(Place place, TcpStore& store, std::chrono::milliseconds deadline);

  /// Collective: what every rank gave, by rank (the own one is a duplicate). A rank that died or is
  /// late throws Error with ExitCode::rank_lost naming it.
  std::vector<FileDescriptor> all_gather(const FileDescriptor& mine);

 private:
  void accept_all(const FileDescriptor& listener);
  void connect_to_root(const std::string& name);
  [[noreturn]] void fail(int peer, std::string_view what) const;

  void send(int peer, const FileDescriptor& descriptor);
  FileDescriptor receive(int peer);

  Place place_;
  std::chrono::milliseconds deadline_;
  std::vector<FileDescriptor> peers_;  ///< rank 0: by rank; others: one, to rank 0
};

}  // namespace shardscope
