#include "backend/recorder/recorded_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
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

const char* name_of(RecordedTime time) {
  switch (time) {
    case RecordedTime::zero:
      return "zero";
    case RecordedTime::sync:
      return "sync";
    case RecordedTime::model:
      return "model";
  }
  return "zero";
}

bool needs_mailbox(const RecordedCommand& command) {
  return command.ranks.size() > 1 || command.may_run_all;
}

/// A folder for what ranks send each other while they run.
fs::path mailbox_of(const RecordedCommand& command) {
  return fs::absolute(command.folder) / "mailbox";
}

Variables environment_of(const RecordedCommand& command, const RecorderFiles& files) {
  Variables variables = own_environment();
  const RecordedDevice& device = command.device;
  put_in_front(variables, "LD_PRELOAD", files.device.string());
  put_in_front(variables, "LD_LIBRARY_PATH", files.device.parent_path().string());
  put_in_front(variables, "PYTHONPATH", files.python.string());
  // Two recordings of a script shall be the same: transformers reads weights in threads, which it
  // does not wait for in any order.
  variables.try_emplace("PYTHONHASHSEED", "0");
  variables.try_emplace("HF_DEACTIVATE_ASYNC_LOAD", "1");
  variables["SHARDSCOPE_RECORD"] = fs::absolute(command.folder).string();
  variables["SHARDSCOPE_RECORD_TIME"] = name_of(command.time);
  variables["SHARDSCOPE_DEVICE_NAME"] = device.name;
  variables["SHARDSCOPE_DEVICE_MEMORY"] = std::to_string(device.memory.count);
  variables["SHARDSCOPE_DEVICE_MAJOR"] = std::to_string(device.compute_capability / 10);
  variables["SHARDSCOPE_DEVICE_MINOR"] = std::to_string(device.compute_capability % 10);
  variables["SHARDSCOPE_DEVICE_MULTIPROCESSORS"] = std::to_string(device.multiprocessors);
  if (device.l2_cache > Bytes{})
    variables["SHARDSCOPE_DEVICE_L2"] = std::to_string(device.l2_cache.count);
  variables["SHARDSCOPE_DEVICES"] = std::to_string(device.per_node);
  add_capability(variables, device, files.capabilities);
  if (command.world > 1) variables["SHARDSCOPE_WORLD"] = std::to_string(command.world);
  if (needs_mailbox(command)) {
    variables["SHARDSCOPE_MAILBOX"] = mailbox_of(command).string();
    variables["SHARDSCOPE_RECORDED_RANKS"] = fmt::format("{}", fmt::join(command.ranks, ","));
  }
  if (command.may_run_all) variables["SHARDSCOPE_MAY_RUN_ALL"] = "1";
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

constexpr std::size_t most_processes = 64;
volatile sig_atomic_t running[most_processes];

volatile sig_atomic_t is_interrupted = 0;
extern "C" void note_interrupt(int) { is_interrupted = 1; }

extern "C" void pass_on(int number) {
  for (const sig_atomic_t child : running)
    if (child > 0) kill(static_cast<pid_t>(child), number);
}

/// Ctrl-C reaches the children by the terminal; what is sent to this process alone is passed on.
class SignalsPassedOn {
 public:
  SignalsPassedOn() {
    struct sigaction action {};
    action.sa_handler = pass_on;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, &terminate_);
    is_interrupted = 0;
    action.sa_handler = note_interrupt;
    sigaction(SIGINT, &action, &interrupt_);
  }
  ~SignalsPassedOn() {
    sigaction(SIGTERM, &terminate_, nullptr);
    sigaction(SIGINT, &interrupt_, nullptr);
  }
  SignalsPassedOn(const SignalsPassedOn&) = delete;
  SignalsPassedOn& operator=(const SignalsPassedOn&) = delete;

 private:
  struct sigaction terminate_ {
  }, interrupt_{};
};

int code_of(int status) {
  constexpr int killed = 128;
  return WIFSIGNALED(status) ? killed + WTERMSIG(status) : WEXITSTATUS(status);
}

/// The first code that is not 0. Of several ranks the others may wait for one that failed, and do
/// not hear Ctrl-C while they do: they get five seconds.
int wait_for_all(bool are_several) {
  using Clock = std::chrono::steady_clock;
  constexpr auto between_looks = std::chrono::milliseconds(20);
  constexpr auto patience = std::chrono::seconds(5);
  int code = 0;
  std::optional<Clock::time_point> end;
  for (std::size_t left = 1; left > 0;) {
    left = 0;
    for (volatile sig_atomic_t& child : running) {
      int status = 0;
      if (child == 0) continue;
      ++left;
      if (waitpid(static_cast<pid_t>(child), &status, WNOHANG) != static_cast<pid_t>(child))
        continue;
      child = 0;
      --left;
      if (code == 0) code = code_of(status);
      if (code != 0 && !end) end = Clock::now() + patience;
    }
    if (are_several && is_interrupted != 0 && !end) end = Clock::now() + patience;
    if (left > 0 && end && Clock::now() > *end) {
      pass_on(SIGTERM);
      end = Clock::now() + patience;
    }
    if (left > 0) std::this_thread::sleep_for(between_looks);
  }
  return code;
}

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  void write_to(const fs::path& file) {
    constexpr int readable = 0644;
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, file.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, readable);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// What is started meanwhile has the same addresses each time: torch's autocast frees its weights
/// in the order of their addresses, and two recordings of a script shall be the same.
class FixedAddresses {
 public:
  FixedAddresses() { ::personality(static_cast<unsigned long>(before_) | ADDR_NO_RANDOMIZE); }
  ~FixedAddresses() { ::personality(static_cast<unsigned long>(before_)); }
  FixedAddresses(const FixedAddresses&) = delete;
  FixedAddresses& operator=(const FixedAddresses&) = delete;

 private:
  static constexpr unsigned long only_ask = 0xffffffff;
  int before_ = ::personality(only_ask);
};

pid_t start(const RecordedCommand& command, Variables variables, int rank) {
  if (command.world > 1) variables["SHARDSCOPE_RANK"] = std::to_string(rank);
  std::vector<std::string> arguments = command.arguments, settings;
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
  FileActions files;
  if (rank != command.ranks.front())
    files.write_to(command.folder / fmt::format("log.{}.txt", rank));
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  sigemptyset(&usual);
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT}) sigaddset(&usual, number);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const FixedAddresses fixed;
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments.front().c_str(), files.get(), &attributes,
                                 pointers_to(arguments).data(), pointers_to(settings).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw Error({.where = arguments.front(),
                 .what = "cannot be started: " + std::generic_category().message(error),
                 .way_out = "check the command after --",
                 .code = ExitCode::outside});
  return child;
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
  if (command.ranks.size() > most_processes)
    throw Error({.where = "--ranks",
                 .what = fmt::format("{} ranks at once; {} is the most", command.ranks.size(),
                                     most_processes)});
  Variables variables = environment_of(command, recorder_files());
  std::unique_ptr<CostServer> costs;
  if (command.time == RecordedTime::model) {
    costs = std::make_unique<CostServer>(command.costs);
    variables["SHARDSCOPE_COSTS"] = costs->name();
  }
  std::error_code ignored;
  fs::remove_all(mailbox_of(command), ignored);
  if (needs_mailbox(command)) fs::create_directories(mailbox_of(command));
  const SignalsPassedOn signals;
  for (std::size_t i = 0; i < command.ranks.size(); ++i)
    running[i] = static_cast<sig_atomic_t>(start(command, variables, command.ranks[i]));
  const int code = wait_for_all(command.ranks.size() > 1);
  fs::remove_all(mailbox_of(command), ignored);
  return code;
}

}  // namespace shardscope
