// The small key-value store through which ranks find each other: the client.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/base/file_descriptor.h"
#include "backend/base/time_limit.h"
#include "backend/rendezvous/tcp_store_protocol.h"

namespace shardscope {

/// One connection to the store. Every call ends within the deadline given at construction, or
/// throws Error with ExitCode::rank_lost that says what was waited for. Keys up to 256 bytes,
/// values up to 64 KiB.
class TcpStore {
 public:
  /// Connects, and tries again until the host answers or the deadline passes.
  TcpStore(const std::string& address, int port, std::chrono::milliseconds deadline);

  /// Of every call from now on.
  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

  void set(std::string_view key, std::string_view value);
  /// Waits until somebody has set the key.
  std::string get(std::string_view key);
  /// The same; nothing when the deadline passes.
  std::optional<std::string> find(std::string_view key);
  /// What is there now; nothing where nobody has set the key.
  std::optional<std::string> peek(std::string_view key);
  /// Sets the key unless somebody has; returns what is there then.
  std::string offer(std::string_view key, std::string_view value);
  /// The store offers this when the connection ends without `withdraw_will`: when this process
  /// dies.
  void leave_will(std::string_view key, std::string_view value);
  void withdraw_will();
  /// Adds to a counter that starts at 0, and returns the sum.
  std::int64_t add(std::string_view key, std::int64_t delta);
  /// The server's time in Unix nanoseconds, on a clock that only goes forward.
  std::int64_t clock_ns();
  /// Returns when `world` ranks have called it with this name. A name serves once.
  void barrier(std::string_view name, int world);

 private:
  struct Answer {
    StoreStatus status = StoreStatus::missing;
    std::string value;
  };
  Answer ask(StoreRequest request, std::string_view key, std::string_view value,
             const TimeLimit& limit);
  [[noreturn]] void fail(std::string_view what) const;

  std::string place_;
  std::chrono::milliseconds deadline_;
  FileDescriptor socket_;
};

}  // namespace shardscope
