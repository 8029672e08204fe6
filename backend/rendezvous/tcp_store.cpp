#include "backend/rendezvous/tcp_store.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds longest_poll{1000};

double seconds(milliseconds length) { return std::chrono::duration<double>(length).count(); }

struct Addresses {
  std::shared_ptr<addrinfo> list;  ///< null when the name does not resolve
  std::string reason;              ///< why not
};

Addresses look_up(const std::string& address, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return {.list = nullptr, .reason = ::gai_strerror(error)};
  return {.list = {found, &::freeaddrinfo}, .reason = {}};
}

/// On a thread of its own: a name server that is out of reach holds getaddrinfo longer than any
/// deadline.
Addresses resolve(const std::string& address, int port, const TimeLimit& limit) {
  std::promise<Addresses> promise;
  std::future<Addresses> future = promise.get_future();
  std::thread([promise = std::move(promise), address, text = std::to_string(port)]() mutable {
    promise.set_value(look_up(address, text));
  }).detach();
  const milliseconds left(limit.milliseconds_left(std::chrono::hours(24)));
  if (future.wait_for(left) == std::future_status::ready) return future.get();
  return {.list = nullptr, .reason = "the name server does not answer"};
}

/// Waits for `events`; false when the limit passed.
bool wait_for(int socket, short events, const TimeLimit& limit) {
  pollfd poll_one{socket, events, 0};
  while (!limit.passed()) {
    if (::poll(&poll_one, 1, limit.milliseconds_left(longest_poll)) > 0) return true;
  }
  return false;
}

/// An open connection, or none with the reason.
FileDescriptor try_connect(const addrinfo& to, const TimeLimit& limit, std::string* reason) {
  FileDescriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  socklen_t length = sizeof error;
  if (!socket.valid()) {
    error = errno;
  } else if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      if (!wait_for(socket.get(), POLLOUT, limit)) {
        *reason = "no answer";
        return {};
      }
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
  }
  if (error == 0) return socket;
  *reason = std::generic_category().message(error);
  return {};
}

}  // namespace

TcpStore::TcpStore(const std::string& address, int port, milliseconds deadline)
    : place_(fmt::format("store at {}:{}", address, port)), deadline_(deadline) {
  const TimeLimit limit(deadline);
  std::optional<std::string> reason;
  milliseconds pause{2};
  while (!limit.passed()) {
    const Addresses addresses = resolve(address, port, limit);
    std::string failure = addresses.reason;
    for (const addrinfo* to = addresses.list.get(); to != nullptr; to = to->ai_next) {
      socket_ = try_connect(*to, limit, &failure);
      if (!socket_.valid()) continue;
      const int on = 1;
      ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::send(socket_.get(), store_greeting.data(), store_greeting.size(), MSG_NOSIGNAL);
      return;
    }
    // The last attempt may fail for want of time alone; one before it knows more.
    if (!reason || !limit.passed()) reason = failure;
    std::this_thread::sleep_for(milliseconds(limit.milliseconds_left(pause)));
    pause = std::min(pause * 2, milliseconds(200));
  }
  fail(fmt::format("{}, for {} s", reason.value_or("no answer"), seconds(deadline)));
}

void TcpStore::fail(std::string_view what) const {
  throw Error({.where = place_,
               .what = std::string(what),
               .way_out = "see that all ranks were started and MASTER_ADDR and MASTER_PORT are "
                          "those of rank 0",
               .code = ExitCode::rank_lost});
}

TcpStore::Answer TcpStore::ask(StoreRequest request, std::string_view key, std::string_view value,
                               const TimeLimit& limit) {
  if (key.size() > store_key_limit || value.size() > store_value_limit) {
    throw Error({.where = place_,
                 .what = fmt::format("a key of {} bytes with a value of {} bytes is too large",
                                     key.size(), value.size()),
                 .way_out = {}});
  }
  const StoreRequestHeader header{.kind = request,
                                  .zero = 0,
                                  .key_bytes = static_cast<std::uint16_t>(key.size()),
                                  .value_bytes = static_cast<std::uint32_t>(value.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += key;
  bytes += value;

  const auto late = [&] { fail(fmt::format("no answer about \"{}\" in time", key)); };
  for (std::size_t sent = 0; sent < bytes.size();) {
    if (!wait_for(socket_.get(), POLLOUT, limit)) late();
    const ssize_t n = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) fail(errno_text("send"));
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  const auto read_exactly = [&](char* to, std::size_t count) {
    for (std::size_t got = 0; got < count;) {
      if (!wait_for(socket_.get(), POLLIN, limit)) late();
      const ssize_t n = ::recv(socket_.get(), to + got, count - got, 0);
      if (n == 0) fail("the host closed the connection");
      if (n < 0 && errno != EAGAIN && errno != EINTR) fail(errno_text("recv"));
      if (n > 0) got += static_cast<std::size_t>(n);
    }
  };
  StoreAnswerHeader answer;
  read_exactly(reinterpret_cast<char*>(&answer), sizeof answer);
  if (answer.value_bytes > store_value_limit)
    fail("what answers there is not this program's store");
  std::string text(answer.value_bytes, '\0');
  read_exactly(text.data(), text.size());
  if (answer.status == StoreStatus::refused) fail(fmt::format("\"{}\" was refused", key));
  return {answer.status, std::move(text)};
}

void TcpStore::set(std::string_view key, std::string_view value) {
  ask(StoreRequest::set, key, value, TimeLimit(deadline_));
}

std::optional<std::string> TcpStore::find(std::string_view key) {
  const TimeLimit limit(deadline_);
  for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds(20))) {
    Answer answer = ask(StoreRequest::get, key, {}, TimeLimit(deadline_));
    if (answer.status == StoreStatus::ok) return std::move(answer.value);
    if (limit.passed()) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(limit.milliseconds_left(pause)));
  }
}

std::string TcpStore::get(std::string_view key) {
  std::optional<std::string> value = find(key);
  if (!value) fail(fmt::format("nobody set \"{}\" within {} s", key, seconds(deadline_)));
  return std::move(*value);
}

std::optional<std::string> TcpStore::peek(std::string_view key) {
  Answer answer = ask(StoreRequest::get, key, {}, TimeLimit(deadline_));
  if (answer.status != StoreStatus::ok) return std::nullopt;
  return std::move(answer.value);
}

std::string TcpStore::offer(std::string_view key, std::string_view value) {
  return ask(StoreRequest::offer, key, value, TimeLimit(deadline_)).value;
}

void TcpStore::leave_will(std::string_view key, std::string_view value) {
  ask(StoreRequest::will, key, value, TimeLimit(deadline_));
}

void TcpStore::withdraw_will() { ask(StoreRequest::will, {}, {}, TimeLimit(deadline_)); }

std::int64_t TcpStore::clock_ns() {
  const std::string bytes = ask(StoreRequest::clock, {}, {}, TimeLimit(deadline_)).value;
  std::int64_t time = 0;
  if (bytes.size() != sizeof time) fail("what answers there is not this program's store");
  std::memcpy(&time, bytes.data(), sizeof time);
  return time;
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta) {
  const std::string_view bytes(reinterpret_cast<const char*>(&delta), sizeof delta);
  const Answer answer = ask(StoreRequest::add, key, bytes, TimeLimit(deadline_));
  std::int64_t sum = 0;
  if (answer.value.size() != sizeof sum) fail("what answers there is not this program's store");
  std::memcpy(&sum, answer.value.data(), sizeof sum);
  return sum;
}

void TcpStore::barrier(std::string_view name, int world) {
  const std::string gate = fmt::format("barrier/{}", name);
  const std::int64_t arrived = add(gate + "/arrived", 1);
  if (arrived == world) set(gate + "/open", "");
  if (!find(gate + "/open")) {
    fail(fmt::format("{} of {} ranks came to \"{}\" within {} s", add(gate + "/arrived", 0), world,
                     name, seconds(deadline_)));
  }
}

}  // namespace shardscope
