#include "sim/collectives/collective_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "sim/collectives/collective_time.h"
#include "sim/collectives/placement.h"

namespace shardscope {
namespace {

/// The measured number of ranks that is nearest to `ranks` by ratio; the smaller of two equally
/// near.
int nearest_ranks(const std::map<int, TimeCurve>& by_ranks, int ranks) {
  int nearest = 0;
  double least = 0;
  for (const auto& [measured, curve] : by_ranks) {
    const double distance = std::abs(std::log(static_cast<double>(ranks) / measured));
    if (nearest == 0 || distance < least) {
      nearest = measured;
      least = distance;
    }
  }
  return nearest;
}

/// The measured collective that stands for one that calibration does not measure: it moves as much.
OperationKind stand_in(OperationKind kind) {
  if (kind == OperationKind::barrier) return OperationKind::all_reduce;
  return kind == OperationKind::reduce ? OperationKind::reduce_scatter : OperationKind::all_gather;
}

/// Share of the payload that a rank gets from others.
double foreign_share(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

/// Every rank reads what is not its own and writes it: of all of them at once, through the memory
/// of one host, whose rate was measured with `profile.ranks` side by side.
Duration through_memory(OperationKind kind, Bytes payload, int ranks,
                        const HardwareProfile& profile) {
  const double rounds = kind == OperationKind::all_reduce ? 2 : 1;
  const double moved = 2.0 * rounds * static_cast<double>(payload.count) * (ranks - 1);
  return Duration::from_seconds(moved / (profile.memory_bandwidth.bytes_per_s * profile.ranks));
}

CollectiveCost timed(Duration time) { return {.time = time, .algorithm = {}, .protocol = {}}; }

}  // namespace

CollectiveModel::CollectiveModel(const HardwareProfile& profile) : profile_(profile) {
  for (const CollectiveSample& sample : profile.collectives)
    samples_[sample.kind][sample.ranks].add(sample.bytes, sample.time);
}

const CollectiveModel::ByRanks* CollectiveModel::samples_of(OperationKind kind) const {
  for (const OperationKind measured : {kind, stand_in(kind)})
    if (const auto found = samples_.find(measured); found != samples_.end()) return &found->second;
  return nullptr;
}

Duration CollectiveModel::extrapolated(OperationKind kind, const ByRanks& samples, Bytes payload,
                                       int ranks) const {
  const int measured = nearest_ranks(samples, ranks);
  const Duration time = samples.at(measured).time_at(payload);
  if (measured == ranks) return time;
  const auto scaled =
      Duration::from_seconds(time.seconds() * foreign_share(ranks) / foreign_share(measured));
  if (profile_.device != "cpu") return scaled;
  return std::max(scaled, through_memory(kind, payload, ranks, profile_));
}

Duration CollectiveModel::ring(OperationKind kind, Bytes payload, int ranks, int nodes) const {
  return ring_time(kind, payload,
                   {.ranks = ranks,
                    .nodes = nodes,
                    .within = profile_.link.value_or(profile_.network.value_or(Link{})),
                    .across = profile_.network.value_or(Link{})});
}

CollectiveCost CollectiveModel::measured(OperationKind kind, Bytes payload, const Ranks& group,
                                         const TimeCurve& curve) const {
  const Duration time = curve.time_at(payload);
  if (!profile_.node) return timed(time);
  CollectiveCost cost = cluster_collective_cost(kind, payload, group, profile_);
  if (payload < curve.smallest() && cost.time <= time) return cost;
  cost.use.within *= std::min(1.0, cost.time.seconds() / time.seconds());
  cost.time = time;
  return cost;
}

CollectiveCost CollectiveModel::cost(OperationKind kind, Bytes payload, const Ranks& group) const {
  const int ranks = static_cast<int>(group.size());
  if (ranks <= 1) return {};
  const int nodes = profile_.ranks_per_node > 0 ? place(group, profile_.ranks_per_node).nodes : 1;
  const ByRanks* samples = samples_of(kind);
  if (samples != nullptr && nodes == 1 && samples->contains(ranks))
    return measured(kind, payload, group, samples->at(ranks));
  if (profile_.node) return cluster_collective_cost(kind, payload, group, profile_);
  const bool has_network = nodes == 1 || profile_.network;
  if (samples != nullptr) {
    const Duration within = extrapolated(kind, *samples, payload, ranks);
    if (nodes == 1 || !has_network) return timed(within);
    return timed(std::max(within, ring(kind, payload, ranks, nodes)));
  }
  if (!profile_.link || !has_network)
    throw Error({.where = "hardware profile " + profile_.name,
                 .what = fmt::format("no figures for {} among {} ranks on {} node{}", name_of(kind),
                                     ranks, nodes, nodes > 1 ? "s" : ""),
                 .way_out = fmt::format("run `shardscope calibrate --ranks {}`, or add {} to it",
                                        ranks, profile_.link ? "a network" : "a link")});
  return timed(ring(kind, payload, ranks, nodes));
}

}  // namespace shardscope
