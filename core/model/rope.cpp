#include "core/model/rope.h"

#include <cmath>
#include <numbers>

namespace shardscope {
namespace {

/// Long waves are slowed by `factor`, short ones kept, those between blended.
float llama3_frequency(float frequency, const Rope::Llama3& scaling) {
  const double old_length = static_cast<double>(scaling.original_max_position_embeddings);
  const float wave_length = static_cast<float>(2 * std::numbers::pi) / frequency;
  const float longest_kept = static_cast<float>(old_length / scaling.high_freq_factor);
  const float shortest_slowed = static_cast<float>(old_length / scaling.low_freq_factor);
  const float factor = static_cast<float>(scaling.factor);
  if (wave_length > shortest_slowed) return frequency / factor;
  if (wave_length < longest_kept) return frequency;
  const float smooth =
      (static_cast<float>(old_length) / wave_length - static_cast<float>(scaling.low_freq_factor)) /
      static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

float inverse_frequency(const Rope& rope, std::int64_t i, std::int64_t head_dim) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
  const float power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
  const float frequency = 1.0f / power;
  if (rope.llama3) return llama3_frequency(frequency, *rope.llama3);
  if (rope.linear_factor) return frequency / static_cast<float>(*rope.linear_factor);
  return frequency;
}

}  // namespace shardscope
