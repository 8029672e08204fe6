#include "backend/recorder/device/cost_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace shardscope::recorder {
namespace {

/// Never destroyed, as the log.
class Client {
 public:
  static Client& get() {
    static Client* const client = new Client;
    return *client;
  }

  std::int64_t ask(const std::string& line) {
    const std::lock_guard lock(mutex_);
    const auto known = answers_.find(line);
    if (known != answers_.end()) return known->second;
    return answers_[line] = std::atol(answer_to(line).c_str());
  }

 private:
  std::string answer_to(const std::string& line) {
    // A child of fork must not read its parent's answers.
    if (process_ != getpid()) connect_to_recorder();
    std::string answer;
    if (!write_all(line + "\n")) return complain();
    for (char one = 0;;) {
      const ssize_t count = read(socket_, &one, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return complain();
      if (one == '\n') return answer;
      answer += one;
    }
  }

  void connect_to_recorder() {
    process_ = getpid();
    const char* name = std::getenv("SHARDSCOPE_COSTS");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name == nullptr || std::strlen(name) + 2 > sizeof address.sun_path) return;
    std::strcpy(address.sun_path + 1, name);  // a name that begins with 0 is of no file
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name));
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0) {
      close(socket_);
      socket_ = -1;
    }
  }

  bool write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  std::string complain() {
    if (!has_complained_)
      std::fputs("shardscope record: nobody says what work costs; it takes no time from here on\n",
                 stderr);
    has_complained_ = true;
    return "0";
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::int64_t> answers_;
  pid_t process_ = 0;
  int socket_ = -1;
  bool has_complained_ = false;
};

}  // namespace

std::int64_t cost_ns(const Question& question) {
  std::string line = question.kind;
  for (const std::string& field : question.fields) line += "\t" + field;
  return Client::get().ask(line);
}

const HostCosts& host_costs() {
  static const HostCosts costs{.launch_ns = cost_ns({.kind = "launch", .fields = {}}),
                               .dispatch_ns = cost_ns({.kind = "dispatch", .fields = {}})};
  return costs;
}

}  // namespace shardscope::recorder
