#include "sim/hardware/rate_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shardscope {
namespace {

double octaves_of(double size) { return std::log2(std::max(size, 1.0)); }

double size(std::int64_t n) { return static_cast<double>(n); }

/// Switches as bits; another layout or norm is another code path and counts as three of the others.
std::uint32_t switches_of(const Kernel& k) {
  std::uint32_t bits = 0;
  int next = 0;
  const auto add = [&](bool on, int weight) {
    for (int i = 0; i < weight; ++i) bits |= static_cast<std::uint32_t>(on) << next++;
  };
  add(k.layout == WeightLayout::in_out, 3);
  add(k.norm == NormKind::rms_norm, 3);
  for (bool flag :
       {k.accumulate, k.accumulate_input, k.has_bias, k.has_weight_gradient, k.has_residual,
        k.has_gelu, k.nesterov, k.has_clip, k.has_copy, k.gradient_dtype != k.dtype})
    add(flag, 1);
  return bits;
}

double squared_distance(const RatePoint& a, const RatePoint& b) {
  constexpr double octaves_per_switch = 0.5;
  double sum = octaves_per_switch * std::popcount(a.switches ^ b.switches);
  for (std::size_t i = 0; i < a.octaves.size(); ++i)
    sum += (a.octaves[i] - b.octaves[i]) * (a.octaves[i] - b.octaves[i]);
  return sum;
}

bool is_matrix_product(KernelKind kind) {
  return kind == KernelKind::linear_forward || kind == KernelKind::linear_backward_input ||
         kind == KernelKind::linear_backward_weight;
}

bool is_attention(KernelKind kind) {
  return kind == KernelKind::attention_forward || kind == KernelKind::attention_backward;
}

}  // namespace

RatePoint rate_point(const Kernel& kernel) {
  RatePoint point{.switches = switches_of(kernel)};
  if (is_matrix_product(kernel.kind))
    point.octaves = {octaves_of(size(kernel.rows)), octaves_of(size(kernel.in)),
                     octaves_of(size(kernel.out))};
  else if (is_attention(kernel.kind))
    point.octaves = {octaves_of(size(kernel.length)), octaves_of(size(kernel.head_dim)),
                     octaves_of(size(kernel.batch * kernel.heads))};
  else
    point.octaves = {octaves_of(work_of(kernel)), 0, 0};
  return point;
}

double work_of(const Kernel& kernel) {
  const bool by_flops = is_matrix_product(kernel.kind) || is_attention(kernel.kind);
  // A sample read from a file has only the fields of its cost key, so that both sides must count by
  // them.
  return size(by_flops ? flops_of(kernel).count : bytes_of(cost_key(kernel)).count);
}

void RateTable::add(const KernelSample& sample) {
  const double work = work_of(sample.kernel);
  if (work <= 0 || sample.time.ns <= 0) return;
  rows_.push_back({rate_point(sample.kernel), std::log(work / sample.time.seconds())});
}

double RateTable::rate_at(const RatePoint& point) const {
  double weights = 0;
  double weighted = 0;
  for (const Row& row : rows_) {
    const double distance2 = squared_distance(row.point, point);
    if (distance2 == 0) return std::exp(row.log_rate);
    const double weight = 1 / (distance2 * distance2);
    weights += weight;
    weighted += weight * row.log_rate;
  }
  return std::exp(weighted / weights);
}

void TimeCurve::add(Bytes bytes, Duration time) {
  const auto place = std::lower_bound(points_.begin(), points_.end(), bytes,
                                      [](const Point& p, Bytes b) { return p.bytes < b; });
  points_.insert(place, {bytes, time});
}

Duration TimeCurve::time_at(Bytes bytes) const {
  const auto above = std::lower_bound(points_.begin(), points_.end(), bytes,
                                      [](const Point& p, Bytes b) { return p.bytes < b; });
  if (above == points_.begin()) return points_.front().time;
  const Point& low = *(above - 1);
  if (above == points_.end())
    return Duration::from_seconds(low.time.seconds() * size(bytes.count) / size(low.bytes.count));
  if (above->bytes == low.bytes) return low.time;
  const double share = std::log(size(bytes.count) / size(low.bytes.count)) /
                       std::log(size(above->bytes.count) / size(low.bytes.count));
  return Duration::from_seconds(low.time.seconds() *
                                std::pow(above->time.seconds() / low.time.seconds(), share));
}

}  // namespace shardscope
