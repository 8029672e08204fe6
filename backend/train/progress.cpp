#include "backend/train/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace shardscope {

Progress::Progress(std::int64_t steps, bool quiet)
    : steps_(steps), quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::show(const StepMetrics& metrics) {
  const double pause_s = terminal_ ? 0.1 : 5;
  const bool last = metrics.step == steps_;
  if (quiet_ || (!last && metrics.elapsed_s - last_shown_s_ < pause_s)) return;
  last_shown_s_ = metrics.elapsed_s;
  fmt::print(stderr, "{}step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.3g}  {:.0f} tokens/s{}",
             terminal_ ? "\r" : "", metrics.step, steps_, metrics.loss, metrics.gradient_norm,
             metrics.learning_rate, metrics.tokens_per_s, terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
}

void Progress::say(std::string_view lines) {
  if (quiet_) return;
  fmt::print(stderr, "{}{}\n", terminal_ ? "\r\x1b[K" : "", lines);
  std::fflush(stderr);
}

void Progress::finish() {
  if (!quiet_ && terminal_ && last_shown_s_ >= 0) fmt::print(stderr, "\n");
}

}  // namespace shardscope
