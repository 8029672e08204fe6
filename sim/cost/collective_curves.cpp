#include "sim/cost/collective_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/cost/cost_model.h"

namespace shardscope {
namespace {

std::optional<Predicted<Duration>> predicted_from(const HardwareProfile& others,
                                                  const CollectiveSample& sample) {
  const bool has_kind = std::ranges::any_of(others.collectives, [&](const CollectiveSample& other) {
    return other.kind == sample.kind && other.ranks == sample.ranks;
  });
  if (!has_kind) return std::nullopt;
  const Group group{.name = {}, .ranks = Ranks::up_to(sample.ranks)};
  return Predicted<Duration>{CostModel(others).collective_time(sample.kind, sample.bytes, group)};
}

std::string text_of(const CollectiveChoice& choice) {
  return choice == CollectiveChoice{} ? ""
                                      : fmt::format("{} {}", choice.algorithm, choice.protocol);
}

}  // namespace

std::vector<CollectiveCurve> collective_curves(const HardwareProfile& profile) {
  HardwareProfile others;  // of collectives only: kernels take no part
  std::map<std::pair<OperationKind, int>, CollectiveCurve> curves;
  for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
    const CollectiveSample& sample = profile.collectives[i];
    others.collectives = profile.collectives;
    others.collectives.erase(others.collectives.begin() + static_cast<std::ptrdiff_t>(i));
    CollectiveCurve& curve = curves[{sample.kind, sample.ranks}];
    curve.kind = sample.kind;
    curve.ranks = sample.ranks;
    curve.points.push_back({.bytes = sample.bytes,
                            .predicted = predicted_from(others, sample),
                            .profiled = Profiled<Duration>{sample.time},
                            .choice = text_of(sample.choice)});
  }
  std::vector<CollectiveCurve> result;
  for (auto& [key, curve] : curves) {
    std::ranges::sort(curve.points, {}, &CollectivePoint::bytes);
    result.push_back(std::move(curve));
  }
  return result;
}

}  // namespace shardscope
