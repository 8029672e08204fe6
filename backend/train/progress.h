// Progress for people, on standard error.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/train/step_metrics.h"

namespace shardscope {

/// On a terminal one line that is written over; elsewhere a line now and then.
class Progress {
 public:
  Progress(std::int64_t steps, bool quiet);

  void show(const StepMetrics& metrics);
  /// Lines that stay, above the one that is written over.
  void say(std::string_view lines);
  /// Leaves the line as it stands.
  void finish();

 private:
  std::int64_t steps_ = 0;
  bool quiet_ = false;
  bool terminal_ = false;
  double last_shown_s_ = -1e9;
};

}  // namespace shardscope
