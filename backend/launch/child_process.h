// One process started by this one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/file_descriptor.h"
#include "backend/rendezvous/environment.h"

namespace shardscope {

/// How a process ended.
struct ProcessEnd {
  int exit_code = 0;  ///< meaningless when a signal ended it
  int signal = 0;     ///< 0: it exited

  bool operator==(const ProcessEnd&) const = default;
};
/// "exited with code 3", "was killed by signal 9 (Killed)"
std::string text_of(const ProcessEnd& end);

struct ChildPlan {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  Variables variables;
  /// Writes to this process's standard output, otherwise into the pipe as well.
  bool keeps_output = false;
};

/// A child in a process group of its own, with its standard error in a pipe. It dies with the
/// thread that started it, and what it leaves of its group dies with it.
class ChildProcess {
 public:
  explicit ChildProcess(const ChildPlan& plan);
  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) noexcept = default;
  /// Kills the child if it still runs.
  ~ChildProcess();

  /// Readable when the process has ended.
  const FileDescriptor& process() const { return process_; }
  const FileDescriptor& output() const { return output_; }
  void close_output() { output_.close(); }

  bool running() const { return process_.valid(); }
  void signal(int number) const;
  /// How it ended; nothing while it runs.
  std::optional<ProcessEnd> collect();

 private:
  int id_ = -1;  ///< process id
  FileDescriptor process_;
  FileDescriptor output_;
};

}  // namespace shardscope
