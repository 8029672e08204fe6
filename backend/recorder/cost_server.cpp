#include "backend/recorder/cost_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace shardscope {
namespace {

struct Client {
  int socket = -1;
  std::string text;  ///< that has come, and is no whole line yet
};

/// False: it is gone.
bool answer(Client& client, const CostAnswers& answers) {
  std::array<char, 65536> part;
  const ssize_t count = read(client.socket, part.data(), part.size());
  if (count <= 0) return false;
  client.text.append(part.data(), static_cast<std::size_t>(count));
  std::string reply;
  std::size_t begin = 0;
  for (std::size_t end; (end = client.text.find('\n', begin)) != std::string::npos; begin = end + 1)
    reply += fmt::format("{}\n", answers(std::string_view(client.text).substr(begin, end - begin)));
  client.text.erase(0, begin);
  return reply.empty() || send(client.socket, reply.data(), reply.size(), MSG_NOSIGNAL) ==
                              static_cast<ssize_t>(reply.size());
}

void serve(int listening, int ends, const CostAnswers& answers) {
  std::vector<Client> clients;
  for (;;) {
    std::vector<pollfd> watched{{ends, POLLIN, 0}, {listening, POLLIN, 0}};
    for (const Client& client : clients) watched.push_back({client.socket, POLLIN, 0});
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) break;
    for (std::size_t i = clients.size(); i > 0; --i) {
      if (watched[i + 1].revents == 0 || answer(clients[i - 1], answers)) continue;
      close(clients[i - 1].socket);
      clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    }
    if (watched[1].revents == 0) continue;
    const int fresh = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (fresh >= 0) clients.push_back({.socket = fresh, .text = {}});
  }
  for (const Client& client : clients) close(client.socket);
}

int listen_as(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  constexpr int most_waiting = 64;
  if (listening >= 0 && bind(listening, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
      listen(listening, most_waiting) == 0)
    return listening;
  if (listening >= 0) close(listening);
  throw Error({.where = "record",
               .what = "no socket can be had for the cost model",
               .way_out = "use --time zero",
               .code = ExitCode::outside});
}

}  // namespace

CostServer::CostServer(CostAnswers answers)
    : answers_(std::move(answers)),
      name_(fmt::format("shardscope-costs-{}-{}", getpid(), static_cast<const void*>(this))),
      listening_(listen_as(name_)),
      ends_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { serve(listening_, ends_, answers_); }) {}

CostServer::~CostServer() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(ends_, &one, sizeof one);
  thread_.join();
  close(listening_);
  close(ends_);
}

}  // namespace shardscope
