#include "gui/data/child_process.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"

extern char** environ;

namespace shardscope::gui {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds glance{20};
constexpr std::chrono::milliseconds grace{1000};
constexpr std::size_t most_words = 4096;

/// One end of a pipe.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return descriptor_; }
  void set(int descriptor) { descriptor_ = descriptor; }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

/// What the child is to find when it starts: nothing to read, nowhere to write, our pipe for
/// complaints, and a process group of its own, so that Ctrl-C in our terminal is ours alone.
class SpawnSettings {
 public:
  explicit SpawnSettings(int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

Error cannot_start(const ChildProcess& child, int number) {
  return Error({.where = child.program.string(),
                .what = "cannot be started: " + std::system_category().message(number),
                .code = ExitCode::outside});
}

std::string last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::size_t begin = text.rfind('\n');
  return std::string(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

class Running {
 public:
  explicit Running(const ChildProcess& child) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw cannot_start(child, errno);
    errors_.set(ends[0]);
    Descriptor theirs(ends[1]);
    const SpawnSettings settings(theirs.get());
    std::string program = child.program.string();
    std::vector<std::string> words = child.arguments;
    std::vector<char*> list{program.data()};
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    const int failure = ::posix_spawn(&process_, program.c_str(), settings.actions(),
                                      settings.attributes(), list.data(), environ);
    if (failure != 0) {
      process_ = -1;
      throw cannot_start(child, failure);
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (process_ < 0) return;
    ::kill(-process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void tell(int signal) const { ::kill(-process_, signal); }

  /// Listens for a moment; true once it has ended.
  bool ended() {
    listen();
    int status = 0;
    const pid_t waited = ::waitpid(process_, &status, WNOHANG);
    if (waited == 0 || (waited < 0 && errno == EINTR)) return false;
    process_ = -1;
    if (waited < 0) {
      code_ = static_cast<int>(ExitCode::outside);
      return true;
    }
    was_killed_ = WIFSIGNALED(status);
    code_ = was_killed_ ? WTERMSIG(status) : WEXITSTATUS(status);
    return true;
  }

  bool was_killed() const { return was_killed_; }
  int code() const { return code_; }
  std::string last_words() {
    while (errors_.get() >= 0 && heard(std::chrono::milliseconds{0})) {
    }
    return last_line(words_);
  }

 private:
  void listen() {
    if (errors_.get() < 0)
      std::this_thread::sleep_for(glance);
    else
      heard(glance);
  }

  /// Takes in what is said within `wait`; false: nothing.
  bool heard(std::chrono::milliseconds wait) {
    pollfd waiting{.fd = errors_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(wait.count())) <= 0) return false;
    std::array<char, 1024> part{};
    const ssize_t bytes = ::read(errors_.get(), part.data(), part.size());
    if (bytes <= 0) {
      errors_.close();
      return false;
    }
    words_.append(part.data(), static_cast<std::size_t>(bytes));
    if (words_.size() > most_words) words_.erase(0, words_.size() - most_words);
    return true;
  }

  pid_t process_ = -1;
  Descriptor errors_;
  std::string words_;
  bool was_killed_ = false;
  int code_ = 0;
};

bool can_run(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

ChildResult run_child(const ChildProcess& child, std::stop_token stop) {
  Running running(child);
  ChildResult result;
  const Clock::time_point patience_ends = Clock::now() + child.patience;
  std::optional<Clock::time_point> grace_ends;
  while (!running.ended()) {
    if (!grace_ends && (stop.stop_requested() || Clock::now() > patience_ends)) {
      result.end = stop.stop_requested() ? ChildEnd::stopped : ChildEnd::out_of_patience;
      running.tell(SIGTERM);
      grace_ends = Clock::now() + grace;
    }
    if (grace_ends && Clock::now() > *grace_ends) running.tell(SIGKILL);
  }
  if (!grace_ends && running.was_killed()) result.end = ChildEnd::killed;
  result.code = running.code();
  result.last_words = running.last_words();
  return result;
}

std::optional<std::filesystem::path> shardscope_program() {
  if (const char* given = std::getenv("SHARDSCOPE"); given != nullptr && *given != '\0')
    return can_run(given) ? std::optional<std::filesystem::path>(given) : std::nullopt;
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (const auto beside = self.parent_path() / "shardscope"; !self.empty() && can_run(beside))
    return beside;
  const char* const path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? std::string_view() : path;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    if (const auto there = std::filesystem::path(folder) / "shardscope";
        !folder.empty() && can_run(there))
      return there;
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
  }
  return std::nullopt;
}

std::string reason_of(const ChildResult& result) {
  switch (result.end) {
    case ChildEnd::out_of_patience:
      return "took too long and was ended";
    case ChildEnd::stopped:
      return "was stopped";
    case ChildEnd::killed:
      return fmt::format("was killed by signal {}", result.code);
    case ChildEnd::exited:
      break;
  }
  if (!result.last_words.empty()) return result.last_words;
  return fmt::format("ended with exit code {}", result.code);
}

}  // namespace shardscope::gui
