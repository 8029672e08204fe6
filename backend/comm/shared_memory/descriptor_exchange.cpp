#include "backend/comm/shared_memory/descriptor_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backend/base/time_limit.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr const char* store_key = "shared_memory/socket";
constexpr std::chrono::milliseconds longest_poll{1000};

FileDescriptor unix_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Listens under a name that the kernel picks in its abstract name space, and returns the name
/// through `name`.
FileDescriptor listen_anywhere(std::string* name) {
  FileDescriptor listener = unix_socket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool listens =
      listener.valid() && ::bind(listener.get(), generic, sizeof address.sun_family) == 0 &&
      ::listen(listener.get(), 1024) == 0 && ::getsockname(listener.get(), generic, &length) == 0;
  if (!listens) {
    throw Error({.where = "shared memory between ranks",
                 .what = errno_text("socket"),
                 .way_out = {},
                 .code = ExitCode::outside});
  }
  name->assign(address.sun_path, length - offsetof(sockaddr_un, sun_path));
  return listener;
}

bool is_own_user(const FileDescriptor& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

bool wait_for(const FileDescriptor& socket, short events, const TimeLimit& limit) {
  pollfd one{socket.get(), events, 0};
  while (!limit.passed()) {
    if (::poll(&one, 1, limit.milliseconds_left(longest_poll)) > 0) return true;
  }
  return false;
}

/// A message of one rank number with room for one descriptor.
struct Packet {
  int rank = 0;
  iovec body{&rank, sizeof rank};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  Packet() {
    header.msg_iov = &body;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Packet(const Packet&) = delete;
};

}  // namespace

DescriptorExchange::DescriptorExchange(Place place, TcpStore& store,
                                       std::chrono::milliseconds deadline)
    : place_(place), deadline_(deadline) {
  if (place_.rank != 0) {
    connect_to_root(store.get(store_key));
    return;
  }
  std::string name;
  const FileDescriptor listener = listen_anywhere(&name);
  store.set(store_key, name);
  accept_all(listener);
}

void DescriptorExchange::fail(int peer, std::string_view what) const {
  throw Error({.where = fmt::format("rank {}", place_.rank),
               .what = fmt::format("rank {} {} while the ranks of this host met", peer, what),
               .way_out = fmt::format("see the log of rank {}", peer),
               .code = ExitCode::rank_lost});
}

void DescriptorExchange::accept_all(const FileDescriptor& listener) {
  peers_.resize(static_cast<std::size_t>(place_.world));
  const TimeLimit limit(deadline_);
  for (int missing = place_.world - 1; missing > 0;) {
    if (!wait_for(listener, POLLIN, limit)) {
      int first = 1;
      while (peers_[static_cast<std::size_t>(first)].valid()) ++first;
      fail(first, "did not come in time");
    }
    FileDescriptor peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.valid() || !is_own_user(peer)) continue;
    int rank = 0;
    if (!wait_for(peer, POLLIN, limit)) continue;
    if (::recv(peer.get(), &rank, sizeof rank, 0) != sizeof rank) continue;
    if (rank < 1 || rank >= place_.world || peers_[static_cast<std::size_t>(rank)].valid())
      continue;
    peers_[static_cast<std::size_t>(rank)] = std::move(peer);
    --missing;
  }
}

void DescriptorExchange::connect_to_root(const std::string& name) {
  FileDescriptor socket = unix_socket();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof address.sun_path) fail(0, "gave no socket");
  std::memcpy(address.sun_path, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (!socket.valid() ||
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    fail(0, errno_text("connect"));
  }
  if (!is_own_user(socket)) fail(0, "is a process of another user");
  if (::send(socket.get(), &place_.rank, sizeof place_.rank, MSG_NOSIGNAL) < 0) {
    fail(0, errno_text("send"));
  }
  peers_.push_back(std::move(socket));
}

void DescriptorExchange::send(int peer, const FileDescriptor& descriptor) {
  const FileDescriptor& socket = peers_[place_.rank == 0 ? static_cast<std::size_t>(peer) : 0];
  Packet packet;
  packet.rank = place_.rank;
  cmsghdr* rights = CMSG_FIRSTHDR(&packet.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = descriptor.get();
  std::memcpy(CMSG_DATA(rights), &number, sizeof number);
  const TimeLimit limit(deadline_);
  if (!wait_for(socket, POLLOUT, limit)) fail(peer, "did not listen in time");
  if (::sendmsg(socket.get(), &packet.header, MSG_NOSIGNAL) < 0) fail(peer, errno_text("sendmsg"));
}

FileDescriptor DescriptorExchange::receive(int peer) {
  const FileDescriptor& socket = peers_[place_.rank == 0 ? static_cast<std::size_t>(peer) : 0];
  Packet packet;
  const TimeLimit limit(deadline_);
  if (!wait_for(socket, POLLIN, limit)) fail(peer, "did not answer in time");
  const ssize_t got = ::recvmsg(socket.get(), &packet.header, MSG_CMSG_CLOEXEC);
  if (got <= 0) fail(peer, "died");
  const cmsghdr* rights = CMSG_FIRSTHDR(&packet.header);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) fail(peer, "sent no memory");
  int number = -1;
  std::memcpy(&number, CMSG_DATA(rights), sizeof number);
  return FileDescriptor(number);
}

std::vector<FileDescriptor> DescriptorExchange::all_gather(const FileDescriptor& mine) {
  std::vector<FileDescriptor> all;
  if (place_.rank == 0) {
    all.emplace_back(::fcntl(mine.get(), F_DUPFD_CLOEXEC, 0));
    for (int peer = 1; peer < place_.world; ++peer) all.push_back(receive(peer));
    for (int peer = 1; peer < place_.world; ++peer) {
      for (const FileDescriptor& descriptor : all) send(peer, descriptor);
    }
  } else {
    send(0, mine);
    for (int peer = 0; peer < place_.world; ++peer) all.push_back(receive(0));
  }
  return all;
}

}  // namespace shardscope
