#include "cli/tool_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

extern char** environ;

namespace shardscope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes = std::size_t{4} << 20;

/// A started tool and the end of the pipe that it writes to.
class Tool {
 public:
  explicit Tool(std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    output_ = ends[0];
    start(arguments, ends[1]);
    ::close(ends[1]);
  }
  ~Tool() {
    if (output_ >= 0) ::close(output_);
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      wait();
    }
  }
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;

  bool started() const { return id_ > 0; }

  /// What it prints until `end`; none where it takes longer or says too much.
  std::optional<std::string> read(Clock::time_point end) const {
    std::string text;
    std::array<char, 4096> part{};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0)
        return std::nullopt;
      const ssize_t bytes = ::read(output_, part.data(), part.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return bytes == 0 ? std::optional(std::move(text)) : std::nullopt;
      text.append(part.data(), static_cast<std::size_t>(bytes));
      if (text.size() > most_bytes) return std::nullopt;
    }
  }

  /// Waits for its end: did it succeed?
  bool wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  void start(std::vector<std::string>& arguments, int output) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (::posix_spawnp(&id_, words.front(), &actions, nullptr, words.data(), environ) != 0)
      id_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }

  pid_t id_ = -1;
  int output_ = -1;
};

}  // namespace

std::optional<std::string> tool_output(std::vector<std::string> arguments,
                                       std::chrono::milliseconds limit) {
  Tool tool(arguments);
  if (!tool.started()) return std::nullopt;
  std::optional<std::string> text = tool.read(Clock::now() + limit);
  if (!text || !tool.wait()) return std::nullopt;
  return text;
}

}  // namespace shardscope
