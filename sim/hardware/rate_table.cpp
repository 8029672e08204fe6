#include "sim/hardware/rate_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "core/schedule/kernel_fields.h"

namespace shardscope {
namespace {

double octaves_of(double size) { return std::log2(std::max(size, 1.0)); }

double size(std::int64_t n) { return static_cast<double>(n); }

/// Bits that are set where a kernel differs from another by a switch.
class Switches {
 public:
  void add(bool on) { bits_ |= static_cast<std::uint32_t>(on) << next_++; }
  /// Another layout or norm is another code path and counts as three switches.
  void add_path(bool other) {
    for (int i = 0; i < 3; ++i) add(other);
  }
  std::uint32_t bits() const { return bits_; }

 private:
  std::uint32_t bits_ = 0;
  int next_ = 0;
};

std::uint32_t switches_of(const Kernel& kernel) {
  return kernel.visit([]<class K>(const K& k) {
    Switches switches;
    if constexpr (requires { k.layout; }) switches.add_path(k.layout == WeightLayout::in_out);
    if constexpr (requires { k.norm; }) switches.add_path(k.norm == NormKind::rms_norm);
    for_each_cost_field<K>([&](std::string_view key, auto field) {
      // Where the count of targets comes from changes no rate.
      if constexpr (std::is_same_v<decltype(k.*field), const bool&>)
        if (key != "has_count") switches.add(k.*field);
    });
    switches.add(gradient_dtype_of(k) != dtype_of(k));
    return switches.bits();
  });
}

double squared_distance(const RatePoint& a, const RatePoint& b) {
  constexpr double octaves_per_switch = 0.5;
  double sum = octaves_per_switch * std::popcount(a.switches ^ b.switches);
  for (std::size_t i = 0; i < a.octaves.size(); ++i)
    sum += (a.octaves[i] - b.octaves[i]) * (a.octaves[i] - b.octaves[i]);
  return sum;
}

bool is_of_products(KernelKind kind) { return is_linear(kind) || is_attention(kind); }

/// The sizes that a rate depends on: of products theirs, of all others the work.
std::array<double, 3> octaves_at(const Kernel& kernel) {
  return kernel.visit([&]<class K>(const K& k) -> std::array<double, 3> {
    if constexpr (is_linear(K::kind))
      return {octaves_of(size(k.rows)), octaves_of(size(k.in)), octaves_of(size(k.out))};
    else if constexpr (is_attention(K::kind))
      return {octaves_of(size(k.length)), octaves_of(size(k.head_dim)),
              octaves_of(size(k.batch * k.heads))};
    else
      return {octaves_of(work_of(kernel)), 0, 0};
  });
}

}  // namespace

RatePoint rate_point(const Kernel& kernel) {
  return {.octaves = octaves_at(kernel), .switches = switches_of(kernel)};
}

double work_of(const Kernel& kernel) {
  // A sample read from a file has only the fields of its cost key, so that both sides must count by
  // them.
  return size(is_of_products(kernel.kind()) ? flops_of(kernel).count
                                            : bytes_of(cost_key(kernel)).count);
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
