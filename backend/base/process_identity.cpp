#include "backend/base/process_identity.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "backend/base/file_descriptor.h"

namespace shardscope {
namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Field 22 of /proc/<pid>/stat; the second one, the name, may hold anything but ends with the last
/// parenthesis. Empty for a process that has ended and is only not yet taken note of (state Z).
std::string start_time(int process) {
  const std::string stat = text_of_file(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z") return "";
  for (int number = 4; number <= 22; ++number) fields >> field;
  return field;
}

std::string boot_id() {
  std::string boot = text_of_file("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return boot;
}

std::string host_identity() {
  const std::string boot = boot_id();
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &space) != 0) return "";
  return fmt::format("{} {}", boot, space.st_ino);
}

}  // namespace

std::string host_boot() {
  if (std::string boot = boot_id(); !boot.empty()) return boot;
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string own_identity() {
  const std::string host = host_identity();
  const std::string start = start_time(::getpid());
  return host.empty() || start.empty() ? "" : fmt::format("{} {} {}", host, ::getpid(), start);
}

SignalOutcome signal_process(const std::string& identity, int number) {
  const std::string host = host_identity();
  if (host.empty() || !identity.starts_with(host + " ")) return SignalOutcome::other_host;
  std::istringstream rest(identity.substr(host.size()));
  int process = 0;
  std::string start;
  if (!(rest >> process >> start) || process <= 1 || process == ::getpid())
    return SignalOutcome::gone;
  // Held from here on, the descriptor means one process, whatever happens to the number.
  const FileDescriptor held(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!held.valid() || start_time(process) != start) return SignalOutcome::gone;
  if (::syscall(SYS_pidfd_send_signal, held.get(), number, nullptr, 0) == 0)
    return SignalOutcome::sent;
  return errno == EPERM ? SignalOutcome::refused : SignalOutcome::gone;
}

void end_process(const std::string& identity) { signal_process(identity, SIGKILL); }

}  // namespace shardscope
