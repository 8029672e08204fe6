#include "sim/planner/answer/curve.h"

#include <map>

namespace shardscope::planner {

std::vector<CurvePoint> curve_of(std::span<const Candidate> candidates) {
  std::map<int, const Candidate*> fastest;
  for (const Candidate& candidate : candidates) {
    const Candidate*& best = fastest[world_of(candidate.choice)];
    if (best == nullptr || candidate.summary.step_time < best->summary.step_time) best = &candidate;
  }
  if (fastest.size() < 2) return {};
  std::vector<CurvePoint> curve;
  for (const auto& [world, best] : fastest)
    curve.push_back({.world = world,
                     .choice = best->choice,
                     .step_time = best->summary.step_time,
                     .tokens_per_s = best->summary.tokens_per_s,
                     .gpu_hours = best->gpu_hours});
  const double alone = curve.front().tokens_per_s / curve.front().world;
  for (CurvePoint& point : curve)
    point.efficiency_share = alone > 0 ? point.tokens_per_s / point.world / alone : 0;
  return curve;
}

std::optional<int> bend_of(std::span<const CurvePoint> curve) {
  if (curve.empty()) return std::nullopt;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const CurvePoint &fewer = curve[i - 1], &more = curve[i];
    const double added = static_cast<double>(more.world) / fewer.world - 1;
    if (more.tokens_per_s < fewer.tokens_per_s * (1 + added / 2)) return fewer.world;
  }
  return curve.back().world;
}

}  // namespace shardscope::planner
