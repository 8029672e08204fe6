// Runs a command on the simulated CUDA device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "backend/recorder/cost_server.h"
#include "core/base/quantities.h"

namespace shardscope {

/// When work on the device ends, as far as the host can tell: at once, when the host waits, or in
/// virtual time.
enum class RecordedTime : std::uint8_t { zero, sync, model };

struct RecordedDevice {
  std::string name;
  Bytes memory;
  int compute_capability = 90;  ///< 90 is 9.0
  int multiprocessors = 132;
  Bytes l2_cache;
  int per_node = 1;  ///< devices of a node
};

struct RecordedCommand {
  std::vector<std::string> arguments;  ///< the program first
  std::filesystem::path folder;        ///< for the logs
  RecordedDevice device;
  int world = 1;  ///< 1: the command's own processes are the job
  /// Which of the world; the first one has the terminal, the others write log.RANK.txt.
  std::vector<int> ranks{0};
  /// Nobody chose the ranks: a launcher that would start as many processes as the world has starts
  /// them all.
  bool may_run_all = false;
  RecordedTime time = RecordedTime::zero;
  CostAnswers costs;  ///< of `RecordedTime::model`
};

/// Where the device's library and the Python part were built or installed.
struct RecorderFiles {
  std::filesystem::path device;  ///< libshardscope_device.so
  std::filesystem::path python;  ///< goes on PYTHONPATH
  std::filesystem::path capabilities;
};
/// Beside the running program. Throws Error (ExitCode::outside) where they are not.
RecorderFiles recorder_files();

/// Runs it to its end, once a rank, with its own input and output. Signals that this process gets
/// go to it, too. Its exit code, of several the first that is not 0; 128 + the signal that ended
/// it. Throws Error (ExitCode::outside) where it cannot be started.
int run_recorded(const RecordedCommand& command);

}  // namespace shardscope
