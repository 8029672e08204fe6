#include "backend/rendezvous/tcp_store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/rendezvous/tcp_store_protocol.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// The values, with bounds on their number and size.
class Values {
 public:
  StoreStatus set(std::string_view key, std::string_view value) {
    const auto found = values_.find(key);
    if (found != values_.end()) {
      bytes_ += value.size() - found->second.size();
      found->second = value;
    } else {
      if (values_.size() >= store_keys_limit) return StoreStatus::refused;
      if (bytes_ + key.size() + value.size() > store_bytes_limit) return StoreStatus::refused;
      bytes_ += key.size() + value.size();
      values_.emplace(key, value);
    }
    return StoreStatus::ok;
  }

  const std::string* get(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t bytes_ = 0;
};

struct Reply {
  StoreStatus status = StoreStatus::ok;
  std::string value;
};

/// Counters are kept as their eight bytes; a key of another length is not a counter.
Reply add(Values& values, std::string_view key, std::string_view delta_bytes) {
  std::uint64_t delta = 0;
  std::uint64_t sum = 0;
  const std::string* old = values.get(key);
  if (delta_bytes.size() != sizeof delta || (old && old->size() != sizeof sum)) {
    return {StoreStatus::refused, {}};
  }
  std::memcpy(&delta, delta_bytes.data(), sizeof delta);
  if (old) std::memcpy(&sum, old->data(), sizeof sum);
  sum += delta;
  std::string text(sizeof sum, '\0');
  std::memcpy(text.data(), &sum, sizeof sum);
  const StoreStatus status = values.set(key, text);
  return {status, std::move(text)};
}

Reply offer(Values& values, std::string_view key, std::string_view value) {
  if (const std::string* found = values.get(key)) return {StoreStatus::ok, *found};
  return {values.set(key, value), std::string(value)};
}

std::int64_t now_ns(auto clock_now) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(clock_now.time_since_epoch()).count();
}

/// Unix time that is not set while the server runs.
Reply tell_time() {
  static const std::int64_t unix_minus_steady =
      now_ns(std::chrono::system_clock::now()) - now_ns(std::chrono::steady_clock::now());
  const std::int64_t time = unix_minus_steady + now_ns(std::chrono::steady_clock::now());
  std::string bytes(sizeof time, '\0');
  std::memcpy(bytes.data(), &time, sizeof time);
  return {StoreStatus::ok, std::move(bytes)};
}

Reply serve(Values& values, StoreRequest kind, std::string_view key, std::string_view value) {
  switch (kind) {
    case StoreRequest::set:
      return {values.set(key, value), {}};
    case StoreRequest::get:
      if (const std::string* found = values.get(key)) return {StoreStatus::ok, *found};
      return {StoreStatus::missing, {}};
    case StoreRequest::add:
      return add(values, key, value);
    case StoreRequest::offer:
      return offer(values, key, value);
    case StoreRequest::clock:
      return tell_time();
    case StoreRequest::will:
      break;  // is the connection's
  }
  return {StoreStatus::refused, {}};
}

/// One client: what it has sent and not been answered, and what it has not yet read. Both are
/// bounded by one request.
class Connection {
 public:
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  /// A client that does not read its answers is not listened to.
  short events() const { return output_.empty() ? POLLIN : POLLOUT; }

  /// What was to be offered when this ends.
  void execute_will(Values& values) const {
    if (!will_.key.empty()) offer(values, will_.key, will_.value);
  }

  /// Moves bytes; false when the connection is over or what came is no request.
  bool step(short events, Values& values) {
    if (events & POLLOUT) return write_some() && answer_all(values);
    if (events & (POLLIN | POLLHUP | POLLERR)) return read_some() && answer_all(values);
    return true;
  }

 private:
  bool read_some() {
    char bytes[4096];
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    input_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

  bool write_some() {
    const ssize_t sent =
        ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    output_.erase(0, static_cast<std::size_t>(sent));
    return true;
  }

  bool answer_all(Values& values) {
    if (!greeted_) {
      const std::size_t known = std::min(input_.size(), store_greeting.size());
      if (std::string_view(input_).substr(0, known) != store_greeting.substr(0, known)) {
        return false;
      }
      if (known < store_greeting.size()) return true;
      greeted_ = true;
      input_.erase(0, store_greeting.size());
    }
    while (output_.empty() && input_.size() >= sizeof(StoreRequestHeader)) {
      StoreRequestHeader header;
      std::memcpy(&header, input_.data(), sizeof header);
      if (header.key_bytes > store_key_limit || header.value_bytes > store_value_limit) {
        return false;
      }
      const std::size_t whole = sizeof header + header.key_bytes + header.value_bytes;
      if (input_.size() < whole) break;
      answer(header, values);
      input_.erase(0, whole);
    }
    return true;
  }

  void answer(const StoreRequestHeader& header, Values& values) {
    const std::string_view body = std::string_view(input_).substr(sizeof header);
    const std::string_view key = body.substr(0, header.key_bytes);
    const std::string_view value = body.substr(header.key_bytes, header.value_bytes);
    const bool is_will = header.kind == StoreRequest::will;
    if (is_will) will_ = {std::string(key), std::string(value)};
    const Reply reply = is_will ? Reply{} : serve(values, header.kind, key, value);
    const StoreAnswerHeader answer{.status = reply.status,
                                   .zero = {},
                                   .value_bytes = static_cast<std::uint32_t>(reply.value.size())};
    output_.assign(reinterpret_cast<const char*>(&answer), sizeof answer);
    output_ += reply.value;
  }

  FileDescriptor socket_;
  std::string input_;
  std::string output_;
  struct Will {
    std::string key;
    std::string value;
  };
  Will will_;
  bool greeted_ = false;
};

/// Where a socket is bound.
struct Place {
  sockaddr_storage address{};
  socklen_t length = 0;
};

bool has_ipv6() {
  return FileDescriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)).valid();
}

Place place_of(ListeningSocket::Reach reach, int port, bool ipv6) {
  Place place;
  const auto net_port = htons(static_cast<std::uint16_t>(port));
  if (reach == ListeningSocket::Reach::all_interfaces && ipv6) {
    auto& address = reinterpret_cast<sockaddr_in6&>(place.address);
    address.sin6_family = AF_INET6;
    address.sin6_port = net_port;
    address.sin6_addr = in6addr_any;
    place.length = sizeof address;
    return place;
  }
  auto& address = reinterpret_cast<sockaddr_in&>(place.address);
  address.sin_family = AF_INET;
  address.sin_port = net_port;
  address.sin_addr.s_addr =
      htonl(reach == ListeningSocket::Reach::loopback ? INADDR_LOOPBACK : INADDR_ANY);
  place.length = sizeof address;
  return place;
}

}  // namespace

ListeningSocket::ListeningSocket(Reach reach, int port) {
  const auto fail = [&](const char* call) {
    throw Error({.where = fmt::format("store on port {}", port),
                 .what = errno_text(call),
                 .way_out = "give another MASTER_PORT",
                 .code = ExitCode::outside});
  };
  Place place = place_of(reach, port, has_ipv6());
  descriptor_ = FileDescriptor(
      ::socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!descriptor_.valid()) fail("socket");
  const int on = 1;
  const int off = 0;
  ::setsockopt(descriptor_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (place.address.ss_family == AF_INET6)  // both kinds of address
    ::setsockopt(descriptor_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  auto* generic = reinterpret_cast<sockaddr*>(&place.address);
  if (::bind(descriptor_.get(), generic, place.length) != 0) fail("bind");
  if (::listen(descriptor_.get(), 1024) != 0) fail("listen");
  if (::getsockname(descriptor_.get(), generic, &place.length) != 0) fail("getsockname");
  port_ = ntohs(place.address.ss_family == AF_INET6
                    ? reinterpret_cast<const sockaddr_in6&>(place.address).sin6_port
                    : reinterpret_cast<const sockaddr_in&>(place.address).sin_port);
}

/// The thread and what it owns.
class TcpStoreServer::Loop {
 public:
  explicit Loop(ListeningSocket socket)
      : listener_(std::move(socket)), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!stop_.valid()) {
      throw Error({.where = "store",
                   .what = errno_text("eventfd"),
                   .way_out = {},
                   .code = ExitCode::outside});
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    const std::uint64_t one = 1;
    // The counter of a fresh eventfd cannot overflow, so that the write cannot fail.
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
  }

  int port() const { return listener_.port(); }

 private:
  void run() {
    for (;;) {
      collect_polls();
      if (::poll(polls_.data(), polls_.size(), -1) < 0) continue;
      if (polls_[0].revents != 0) return;
      serve_connections();
      if (polls_[1].revents != 0) accept_one();
    }
  }

  void collect_polls() {
    const bool full = connections_.size() >= store_connections_limit;
    polls_.clear();
    polls_.push_back({stop_.get(), POLLIN, 0});
    polls_.push_back({full ? -1 : listener_.descriptor().get(), POLLIN, 0});
    for (const Connection& c : connections_) polls_.push_back({c.descriptor(), c.events(), 0});
  }

  void serve_connections() {
    std::vector<Connection> living;
    living.reserve(connections_.size());
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i].step(polls_[i + 2].revents, values_)) {
        living.push_back(std::move(connections_[i]));
      } else {
        connections_[i].execute_will(values_);
      }
    }
    connections_ = std::move(living);
  }

  void accept_one() {
    FileDescriptor client(
        ::accept4(listener_.descriptor().get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // Out of descriptors: the client waits in the backlog; without a pause the loop would spin on
    // it.
    if (!client.valid()) {
      if (errno == EMFILE || errno == ENFILE) ::usleep(10000);
      return;
    }
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_.emplace_back(std::move(client));
  }

  ListeningSocket listener_;
  FileDescriptor stop_;
  Values values_;
  std::vector<Connection> connections_;
  std::vector<pollfd> polls_;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(ListeningSocket socket)
    : loop_(std::make_unique<Loop>(std::move(socket))) {}
TcpStoreServer::TcpStoreServer(TcpStoreServer&&) noexcept = default;
TcpStoreServer& TcpStoreServer::operator=(TcpStoreServer&&) noexcept = default;
TcpStoreServer::~TcpStoreServer() = default;

int TcpStoreServer::port() const { return loop_->port(); }

}  // namespace shardscope
