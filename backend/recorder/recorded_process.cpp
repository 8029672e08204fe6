#include "backend/recorder/recorded_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

fs::path own_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

Variables own_environment() {
  Variables variables;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

void put_in_front(Variables& variables, const std::string& name, const std::string& path) {
  std::string& value = variables[name];
  value = value.empty() ? path : path + ":" + value;
}

/// Of the compute capability; the device's library has those of 9.0.
void add_capability(Variables& variables, const RecordedDevice& device, const fs::path& file) {
  const JsonValue all = JsonValue::read_file(file).at("by_capability");
  const std::string name = std::to_string(device.compute_capability);
  if (!all.has(name)) return;
  const JsonValue row = all.at(name);
  const auto number = [&](std::string_view key) { return std::to_string(row.at(key).integer(1)); };
  variables["SHARDSCOPE_DEVICE_SHARED"] = number("shared_memory_per_multiprocessor");
  variables["SHARDSCOPE_DEVICE_SHARED_OPTIN"] = number("shared_memory_per_block");
  variables["SHARDSCOPE_DEVICE_THREADS"] = number("threads_per_multiprocessor");
}

Variables environment_of(const RecordedCommand& command, const RecorderFiles& files) {
  Variables variables = own_environment();
  const RecordedDevice& device = command.device;
  put_in_front(variables, "LD_PRELOAD", files.device.string());
  put_in_front(variables, "LD_LIBRARY_PATH", files.device.parent_path().string());
  put_in_front(variables, "PYTHONPATH", files.python.string());
  variables["SHARDSCOPE_RECORD"] = fs::absolute(command.folder).string();
  variables["SHARDSCOPE_RECORD_TIME"] = command.time == RecordedTime::sync ? "sync" : "zero";
  variables["SHARDSCOPE_DEVICE_NAME"] = device.name;
  variables["SHARDSCOPE_DEVICE_MEMORY"] = std::to_string(device.memory.count);
  variables["SHARDSCOPE_DEVICE_MAJOR"] = std::to_string(device.compute_capability / 10);
  variables["SHARDSCOPE_DEVICE_MINOR"] = std::to_string(device.compute_capability % 10);
  variables["SHARDSCOPE_DEVICE_MULTIPROCESSORS"] = std::to_string(device.multiprocessors);
  if (device.l2_cache > Bytes{})
    variables["SHARDSCOPE_DEVICE_L2"] = std::to_string(device.l2_cache.count);
  variables["SHARDSCOPE_DEVICES"] = std::to_string(device.per_node);
  add_capability(variables, device, files.capabilities);
  if (command.world > 1) {
    variables["SHARDSCOPE_WORLD"] = std::to_string(command.world);
    variables["SHARDSCOPE_RANK"] = std::to_string(command.rank);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

volatile sig_atomic_t running_child = 0;

extern "C" void pass_on(int number) {
  if (running_child > 0) kill(static_cast<pid_t>(running_child), number);
}

/// Ctrl-C reaches the child by the terminal; what is sent to this process alone is passed on.
class SignalsPassedOn {
 public:
  explicit SignalsPassedOn(pid_t child) {
    running_child = child;
    struct sigaction action {};
    action.sa_handler = pass_on;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, &terminate_);
    action.sa_handler = SIG_IGN;
    sigaction(SIGINT, &action, &interrupt_);
  }
  ~SignalsPassedOn() {
    sigaction(SIGTERM, &terminate_, nullptr);
    sigaction(SIGINT, &interrupt_, nullptr);
    running_child = 0;
  }
  SignalsPassedOn(const SignalsPassedOn&) = delete;
  SignalsPassedOn& operator=(const SignalsPassedOn&) = delete;

 private:
  struct sigaction terminate_ {
  }, interrupt_{};
};

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int killed = 128;
  return WIFSIGNALED(status) ? killed + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

RecorderFiles recorder_files() {
  const fs::path root = own_folder().parent_path();
  const fs::path shared = root / "share/shardscope/recorder";
  RecorderFiles files{.device = root / "lib/shardscope/libshardscope_device.so",
                      .python = shared / "python",
                      .capabilities = shared / "compute_capabilities.json"};
  for (const fs::path& path : {files.device, files.python, files.capabilities})
    if (!is_there(path))
      throw Error({.where = path.string(),
                   .what = "is missing, and the recorder needs it",
                   .way_out = "build or install shardscope again",
                   .code = ExitCode::outside});
  return files;
}

int run_recorded(const RecordedCommand& command) {
  std::vector<std::string> arguments = command.arguments, variables;
  for (const auto& [name, value] : environment_of(command, recorder_files()))
    variables.push_back(name + "=" + value);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments.front().c_str(), nullptr, &attributes,
                                 pointers_to(arguments).data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw Error({.where = arguments.front(),
                 .what = "cannot be started: " + std::generic_category().message(error),
                 .code = ExitCode::outside});
  const SignalsPassedOn signals(child);
  return wait_for(child);
}

}  // namespace shardscope
