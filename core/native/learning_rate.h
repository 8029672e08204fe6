// Learning-rate schedules, in double precision.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace shardscope {

struct LearningRate {
  enum class Kind : std::uint8_t {
    constant,
    linear,
    hf_cosine,
    hf_cosine_with_min,
    nanogpt_cosine
  };
  Kind kind = Kind::constant;
  double peak = 3e-4;
  double min = 0;           ///< hf_cosine_with_min, nanogpt_cosine
  std::int64_t warmup = 0;  ///< steps
  std::int64_t total = 0;   ///< steps; 0: those of the run
  double cycles = 0.5;      ///< hf_cosine, hf_cosine_with_min: waves of the cosine until `total`
  bool operator==(const LearningRate&) const = default;
};

/// "constant", "hf_cosine", ...; throws Error naming `where` and the choices.
LearningRate::Kind parse_learning_rate_kind(std::string_view text, std::string_view where);
std::string_view name_of(LearningRate::Kind kind);
/// In the order of the enumeration.
std::vector<std::string_view> learning_rate_kinds();

/// The rate in force during the update of `step`, counted from 0. `steps` is the length of the run,
/// used where rate.total is 0. All but nanogpt_cosine warm up as peak * step / warmup, so step 0 of
/// a warm-up has rate 0; then
///   constant            peak
///   linear              peak * (total - step) / (total - warmup), at least 0
///   hf_cosine           peak * (1 + cos(2 pi cycles p)) / 2, at least 0, p = (step - warmup) /
///   (total - warmup) hf_cosine_with_min  the same between peak and min nanogpt_cosine      warm-up
///   peak * (step + 1) / (warmup + 1); then between peak and min; min after `total`
/// Sources: transformers 5.23 optimization.py (get_*_schedule_with_warmup); nanoGPT train.py,
/// get_lr. Example: hf_cosine, peak 1e-3, warmup 5, total 40: 2e-4 at step 1, 1e-3 at step 5, 0 at
/// step 40.
double learning_rate(const LearningRate& rate, std::int64_t step, std::int64_t steps = 0);

}  // namespace shardscope
