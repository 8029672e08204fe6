#include "backend/train/step_metrics.h"

#include <fmt/core.h>

namespace shardscope {

std::string to_json(const StepMetrics& metrics) {
  return fmt::format(
      R"({{"step": {}, "loss": {:.17g}, "gradient_norm": {:.17g}, "learning_rate": {:.17g}, "elapsed_s": {:.6f}, "tokens_per_s": {:.3f}}})",
      metrics.step, metrics.loss, metrics.gradient_norm, metrics.learning_rate, metrics.elapsed_s,
      metrics.tokens_per_s);
}

}  // namespace shardscope
