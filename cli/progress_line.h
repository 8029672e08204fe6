// ProgressLine: how far something is that takes its time.
#pragma once

#include <chrono>
#include <string_view>

#include "cli/output_options.h"

namespace shardscope {

/// One line on standard error that is written over, where a person looks: on a terminal, without
/// --quiet. It goes with this.
class ProgressLine {
 public:
  explicit ProgressLine(const OutputOptions& output);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// Shows `text`, what is not printable in it made visible; at most ten times a second.
  void update(std::string_view text);

 private:
  bool shown_;
  bool written_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace shardscope
