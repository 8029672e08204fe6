#include "sim/engine/clock_options.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/cost_model.h"
#include "sim/kernels/device_efficiency.h"

namespace shardscope {
namespace {

/// Kernels have the multiprocessors that the collective's channels leave them.
double compute_slowdown(const HardwareProfile& profile) {
  if (!profile.gpu || profile.provenance.contains("contention")) return profile.compute_slowdown;
  const double all = profile.gpu->multiprocessors;
  const double taken = efficiency_of(profile.compute_capability).sharing.multiprocessors;
  return all / std::max(1.0, all - taken);
}

/// Of so many ranks that compute.
double time_share(const std::vector<CoreSharingSample>& samples, int ranks) {
  const auto above = std::ranges::lower_bound(samples, ranks, {}, &CoreSharingSample::ranks);
  if (above == samples.begin()) return samples.front().time_share;
  if (above == samples.end()) return samples.back().time_share;
  const CoreSharingSample& below = *(above - 1);
  return std::lerp(below.time_share, above->time_share,
                   static_cast<double>(ranks - below.ranks) / (above->ranks - below.ranks));
}

bool is_native(const Schedule& schedule) { return schedule.memory == MemorySource::arena; }

}  // namespace

SharingRules sharing_rules(const HardwareProfile& profile) {
  return {.collectives_serial = profile.collectives_serial,
          .communicators_apart = profile.node.has_value(),
          .compute_slowdown = compute_slowdown(profile),
          .collective_slowdown = profile.collective_slowdown,
          .compute_waits = profile.compute_waits};
}

DeviceClockOptions clock_options(const Schedule& schedule, const HardwareProfile& profile) {
  SharingRules sharing = sharing_rules(profile);
  if (is_native(schedule)) {
    sharing.communicators_apart = false;
    return {.launch = profile.graph_operation_overhead.value_or(profile.operation_overhead),
            .sharing = sharing};
  }
  const HostCosts host = profile.host.value_or(HostCosts{
      .operation = profile.operation_overhead, .view = {profile.operation_overhead.ns / 4}});
  const auto in_backward = [&](Duration time) {
    return Duration::from_seconds(time.seconds() * host.backward);
  };
  return {.launch = host.operation,
          .dispatch = host.view,
          .backward_launch = in_backward(host.operation),
          .backward_dispatch = in_backward(host.view),
          .hook = profile.module_hook.value_or(Duration{}),
          .sharing = sharing};
}

std::vector<StragglingSample> straggling_of(const Schedule& schedule,
                                            const HardwareProfile& profile) {
  const bool meets = is_native(schedule) && host_role(profile) == HostRole::computes;
  return meets ? profile.straggling : std::vector<StragglingSample>{};
}

std::vector<double> core_sharing_of(const HardwareProfile& profile, std::size_t devices,
                                    int ranks) {
  const bool on_one_host =
      profile.ranks_per_node == 0 || static_cast<int>(devices) * ranks <= profile.ranks_per_node;
  const std::vector<CoreSharingSample>& samples = profile.core_sharing;
  const bool known = !samples.empty() && devices > 1;
  if (!known || host_role(profile) != HostRole::computes || !on_one_host) return {};
  std::vector<double> factors;
  for (std::size_t busy = 1; busy <= devices; ++busy)
    factors.push_back(time_share(samples, static_cast<int>(busy) * ranks));
  // What ranks lose by passing work on stays where as many were measured. Those of one device wait
  // for one another in collectives, and `straggling` has what they lose there.
  const bool measured = ranks == 1 && static_cast<int>(devices) == samples.back().ranks;
  const double passing_on = measured ? samples.back().time_share : 1;
  const double all = factors.back() / passing_on;
  for (double& factor : factors) factor /= all;
  return factors;
}

StepCosts costs_of(const Schedule& schedule, const HardwareProfile& profile) {
  const CostModel model(profile);
  return {.times = operation_times(schedule, model),
          .uses = link_uses(schedule, model),
          .clock = clock_options(schedule, profile),
          .straggling = straggling_of(schedule, profile),
          .straggling_ranks = profile.ranks};
}

}  // namespace shardscope
