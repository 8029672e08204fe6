// The small key-value store through which ranks find each other: the side that keeps the values.
#pragma once

#include <memory>
#include <string>

#include "backend/base/file_descriptor.h"

namespace shardscope {

/// A bound and listening TCP port.
class ListeningSocket {
 public:
  /// Binds `port` (0: any free one) on the loopback interface, or on all of them. Throws Error when
  /// it is taken.
  enum class Reach { loopback, all_interfaces };
  ListeningSocket(Reach reach, int port);

  int port() const { return port_; }
  const FileDescriptor& descriptor() const { return descriptor_; }

 private:
  FileDescriptor descriptor_;
  int port_ = 0;
};

/// Serves the store on a thread until it goes. Bytes that are no request close that connection and
/// nothing else; keys, values, connections and memory are bounded (tcp_store_protocol.h).
class TcpStoreServer {
 public:
  explicit TcpStoreServer(ListeningSocket socket);
  TcpStoreServer(TcpStoreServer&&) noexcept;
  TcpStoreServer& operator=(TcpStoreServer&&) noexcept;
  ~TcpStoreServer();

  int port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace shardscope
