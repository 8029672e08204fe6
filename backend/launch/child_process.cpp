#include "backend/launch/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

[[noreturn]] void fail(const char* call) {
  throw Error({.where = "start of a rank",
               .what = errno_text(call),
               .way_out = "start fewer ranks, or raise the limits on processes and open files",
               .code = ExitCode::outside});
}

/// Null-terminated pointers to texts that outlive them.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> lines_of(const Variables& variables) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

/// Everything that the child needs between fork and exec, where it may call next to nothing.
struct ChildStart {
  const char* program;
  char* const* arguments;
  char* const* variables;
  int output;
  int nothing;
  bool keeps_output;
  pid_t parent;
};

[[noreturn]] void become(const ChildStart& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above.
  if (::getppid() != start.parent) ::_exit(static_cast<int>(ExitCode::rank_lost));
  ::setpgid(0, 0);
  ::dup2(start.nothing, STDIN_FILENO);
  if (!start.keeps_output) ::dup2(start.output, STDOUT_FILENO);
  ::dup2(start.output, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(start.program, start.arguments, start.variables);
  static constexpr char message[] = "the program could not be started\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message, sizeof message - 1);
  ::_exit(static_cast<int>(ExitCode::outside));
}

}  // namespace

std::string text_of(const ProcessEnd& end) {
  if (end.signal == 0) return fmt::format("exited with code {}", end.exit_code);
  return fmt::format("was killed by signal {} ({})", end.signal, ::strsignal(end.signal));
}

ChildProcess::ChildProcess(const ChildPlan& plan) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  output_ = FileDescriptor(ends[0]);
  const FileDescriptor write_end(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.valid()) fail("open /dev/null");

  const std::vector<std::string> variables = lines_of(plan.variables);
  const std::vector<char*> argument_pointers = pointers(plan.arguments);
  const std::vector<char*> variable_pointers = pointers(variables);
  const ChildStart start{.program = plan.program.c_str(),
                         .arguments = argument_pointers.data(),
                         .variables = variable_pointers.data(),
                         .output = write_end.get(),
                         .nothing = nothing.get(),
                         .keeps_output = plan.keeps_output,
                         .parent = ::getpid()};
  id_ = ::fork();
  if (id_ < 0) fail("fork");
  if (id_ == 0) become(start);
  // Also done by the child; whoever comes first.
  ::setpgid(id_, id_);
  process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, id_, 0)));
  if (!process_.valid()) {
    const int reason = errno;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
    errno = reason;
    fail("pidfd_open");
  }
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  signal(SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

void ChildProcess::signal(int number) const {
  if (running()) ::kill(-id_, number);
}

std::optional<ProcessEnd> ChildProcess::collect() {
  pollfd ended{process_.get(), POLLIN, 0};
  if (::poll(&ended, 1, 0) <= 0) return std::nullopt;
  // Until it is waited for the process keeps its group's number from being given to others.
  signal(SIGKILL);
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
  process_.close();
  if (WIFSIGNALED(status)) return ProcessEnd{.exit_code = 0, .signal = WTERMSIG(status)};
  return ProcessEnd{.exit_code = WEXITSTATUS(status), .signal = 0};
}

}  // namespace shardscope
