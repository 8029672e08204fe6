#include "core/native/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace shardscope {
namespace {

using Kind = LearningRate::Kind;

constexpr std::array<std::string_view, 5> names{"constant", "linear", "hf_cosine",
                                                "hf_cosine_with_min", "nanogpt_cosine"};

double quotient(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
}

/// (1 + cos) / 2 of the share of the way from the end of the warm-up to `total`, not limited.
double cosine(const LearningRate& rate, std::int64_t step, std::int64_t total) {
  const double progress = quotient(step - rate.warmup, total - rate.warmup);
  return 0.5 * (1 + std::cos(std::numbers::pi * rate.cycles * 2 * progress));
}

double nanogpt_cosine(const LearningRate& rate, std::int64_t step, std::int64_t total) {
  if (step < rate.warmup)
    return rate.peak * static_cast<double>(step + 1) / static_cast<double>(rate.warmup + 1);
  if (step > total) return rate.min;
  const double progress = quotient(step - rate.warmup, total - rate.warmup);
  return rate.min + 0.5 * (1 + std::cos(std::numbers::pi * progress)) * (rate.peak - rate.min);
}

/// transformers' schedules: a factor on the peak.
double factor(const LearningRate& rate, std::int64_t step, std::int64_t total) {
  if (step < rate.warmup) return quotient(step, rate.warmup);
  switch (rate.kind) {
    case Kind::linear:
      return std::max(0.0, quotient(total - step, total - rate.warmup));
    case Kind::hf_cosine:
      return std::max(0.0, cosine(rate, step, total));
    case Kind::hf_cosine_with_min: {
      const double lowest = rate.min / rate.peak;
      return std::max(0.0, cosine(rate, step, total) * (1 - lowest) + lowest);
    }
    case Kind::constant:
    case Kind::nanogpt_cosine:
      break;
  }
  return 1;
}

}  // namespace

Kind parse_learning_rate_kind(std::string_view text, std::string_view where) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Kind>(found - names.begin());
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of {}", shown(text), fmt::join(names, ", ")),
               .way_out = {}});
}

std::string_view name_of(Kind kind) { return names[static_cast<std::size_t>(kind)]; }

std::vector<std::string_view> learning_rate_kinds() { return {names.begin(), names.end()}; }

double learning_rate(const LearningRate& rate, std::int64_t step, std::int64_t steps) {
  const std::int64_t total = rate.total > 0 ? rate.total : steps;
  if (rate.peak == 0) return 0;
  if (rate.kind == Kind::nanogpt_cosine) return nanogpt_cosine(rate, step, total);
  return rate.peak * factor(rate, step, total);
}

}  // namespace shardscope
