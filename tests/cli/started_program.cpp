#include "tests/cli/started_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

namespace shardscope::testing {
namespace {

using std::chrono::steady_clock;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void become(const std::vector<std::string>& command, const std::filesystem::path& folder,
            const StartedProgram::Variables& variables, const std::filesystem::path& output,
            const std::filesystem::path& errors) {
  ::setpgid(0, 0);
  ::signal(SIGINT, SIG_DFL);  // ignored where the tests run in the background
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (::chdir(folder.c_str()) != 0) ::_exit(99);
  ::setenv("HOME", folder.c_str(), 1);
  ::unsetenv("XDG_CACHE_HOME");
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(99);
}

}  // namespace

StartedProgram::StartedProgram(const std::vector<std::string>& command,
                               const std::filesystem::path& folder, const Variables& variables) {
  static std::atomic<int> count = 0;
  const std::string number = std::to_string(count++);
  output_ = folder / ("started." + number + ".out");
  errors_ = folder / ("started." + number + ".err");
  id_ = ::fork();
  if (id_ == 0) become(command, folder, variables, output_, errors_);
  ::setpgid(id_, id_);
}

StartedProgram::StartedProgram(StartedProgram&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)) {}

StartedProgram::~StartedProgram() {
  if (id_ < 0) return;
  ::kill(-id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

std::optional<Outcome> StartedProgram::wait(std::chrono::milliseconds longest) {
  const auto end = steady_clock::now() + longest;
  int status = 0;
  while (::waitpid(id_, &status, WNOHANG) == 0) {
    if (steady_clock::now() > end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  id_ = -1;
  return Outcome{.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                 .output = content_of(output_),
                 .errors = content_of(errors_)};
}

std::string StartedProgram::errors_so_far() const { return content_of(errors_); }

bool comes_true(const std::function<bool()>& holds) {
  const auto end = steady_clock::now() + long_enough;
  while (!holds()) {
    if (steady_clock::now() > end) return holds();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool cares(pid_t process, int signal, SignalCare care) {
  const std::string_view key = care == SignalCare::ignores ? "SigIgn:" : "SigCgt:";
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key))
      return (std::stoull(line.substr(key.size()), nullptr, 16) >> (signal - 1)) % 2 == 1;
  }
  return false;
}

bool has_ended(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("State:")) return line.find('Z') != std::string::npos;
  return true;
}

std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (content_of(entry.path() / "cmdline").find(word) != std::string::npos)
      found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<pid_t> process_with(const std::string& word, const std::string& variable) {
  for (const pid_t id : processes_with(word)) {
    const std::string all = '\0' + content_of("/proc/" + std::to_string(id) + "/environ");
    if (all.find('\0' + variable + '\0') != std::string::npos) return id;
  }
  return std::nullopt;
}

}  // namespace shardscope::testing
