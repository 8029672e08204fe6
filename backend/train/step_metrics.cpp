#include "backend/train/step_metrics.h"

#include <fmt/core.h>

#include <cmath>

namespace shardscope {
namespace {

std::string number_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

}  // namespace

std::string to_json(const StepMetrics& metrics) {
  return fmt::format(
      R"({{"step": {}, "loss": {}, "gradient_norm": {}, "learning_rate": {:.17g}, "elapsed_s": {:.6f}, "tokens_per_s": {:.3f}{}}})",
      metrics.step, number_text(metrics.loss), number_text(metrics.gradient_norm),
      metrics.learning_rate, metrics.elapsed_s, metrics.tokens_per_s,
      metrics.skipped ? ", \"skipped\": true" : "");
}

}  // namespace shardscope
