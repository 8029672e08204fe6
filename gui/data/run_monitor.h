// A real run that is under way: how it is started, what it has written so far, how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/quantities.h"

namespace shardscope::gui {

struct RunRequest {
  std::filesystem::path job;  ///< its file
  int ranks = 1;
  std::int64_t steps = 10;
  std::filesystem::path folder;   ///< that the run leaves
  std::filesystem::path machine;  ///< profile of its prediction; empty: what calibrate measured
};
/// Of the program `shardscope`.
std::vector<std::string> train_arguments(const RunRequest& request);

/// One step of a run, as its metrics.jsonl has it.
struct RunPoint {
  std::int64_t step = 0;
  double loss = 0;
  double elapsed_s = 0;  ///< since the run began
  bool operator==(const RunPoint&) const = default;
};

/// Follows a metrics.jsonl that grows: each call gives the lines that were completed since.
class MetricsTail {
 public:
  explicit MetricsTail(std::filesystem::path file) : file_(std::move(file)) {}

  /// At most 1 MiB at a time; lines that are no metrics are left out. A file that became shorter is
  /// another run's, and read from its beginning.
  std::vector<RunPoint> read();

 private:
  std::filesystem::path file_;
  std::int64_t position_ = 0;
};

/// What step `place` took; of the first one since the run began.
Duration step_time(const std::vector<RunPoint>& points, std::size_t place);

/// "finished", "stopped: steps so far are kept", "a rank died or hung (exit code 4)", ...
std::string ending_text(int exit_code);

}  // namespace shardscope::gui
