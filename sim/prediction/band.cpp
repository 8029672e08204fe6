#include "sim/prediction/band.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "sim/collectives/placement.h"
#include "sim/cost/cost_model.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/kernels/matmul_time.h"

namespace shardscope {
namespace {

std::size_t index_of(CostGroup group) { return static_cast<std::size_t>(group); }

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

double difference(Duration moved, Duration time) {
  return time.ns > 0 ? (moved.seconds() - time.seconds()) / time.seconds() : 0;
}

/// Products that have no spread of their own go with the others: they are wrong together.
CostGroup group_of_product(const DeviceWork& work, const MatmulEfficiency& efficiency) {
  const bool unaligned = is_unaligned_batch(work.matmul, size_of(work.dtype));
  if (unaligned && efficiency.unaligned_batch_spread > 0) return CostGroup::unaligned;
  const bool batched = work.matmul.batch > 1 && efficiency.batched_spread > 0;
  return batched ? CostGroup::batched : CostGroup::products;
}

CostGroup group_of(const DeviceWork& work, const MatmulEfficiency& efficiency) {
  if (work.convolution.channels > 0) return CostGroup::convolutions;
  if (work.recurrent.layers > 0) return CostGroup::recurrent;
  switch (work.kind) {
    case WorkKind::matmul:
      return group_of_product(work, efficiency);
    case WorkKind::attention_forward:
    case WorkKind::attention_backward:
      return CostGroup::attention;
    default:
      return CostGroup::memory;
  }
}

double square(double value) { return value * value; }

/// Of the sum of the squares of what moves a step.
StepTimeBand band_of(double squares) {
  const double factor = std::exp(deviations_of_ninety_percent * std::sqrt(squares));
  return {.low_factor = 1 / factor, .high_factor = factor};
}

/// Of figures whose file states no spread.
double usual_spread(Origin origin) {
  switch (origin) {
    case Origin::measured:
      return 0.03;
    case Origin::vendor:
    case Origin::published:
      return 0.08;
    case Origin::assumed:
      return 0.25;
  }
  return 0;
}

/// Of the first of the figures that the profile has.
double spread_of(const HardwareProfile& profile, std::initializer_list<std::string_view> figures) {
  for (const std::string_view figure : figures)
    if (const auto found = profile.provenance.find(figure); found != profile.provenance.end())
      return spread_of(found->second);
  return usual_spread(Origin::assumed);
}

/// What predictions are off by where all constants are right. Of machines that were measured: what
/// is left of `./dev bench regret`; of data sheets: of published runs that no constant was fitted
/// to.
constexpr double model_spread_measured = 0.04;
constexpr double model_spread_of_data_sheets = 0.025;

}  // namespace

double spread_of(const Provenance& provenance) {
  return provenance.spread > 0 ? provenance.spread : usual_spread(provenance.origin);
}

CostGroup cost_group(const Schedule& schedule, const Operation& op,
                     const HardwareProfile& profile) {
  if (is_collective(op.kind)) {
    const Group& group = schedule.groups[schedule.collectives[op.detail].group.value];
    const int in_node = std::max(1, profile.ranks_per_node);
    const bool crosses = profile.ranks_per_node > 0 && place(group.ranks, in_node).nodes > 1;
    return crosses ? CostGroup::network : CostGroup::links;
  }
  const bool computes = op.kind == OperationKind::compute || op.kind == OperationKind::optimizer;
  if (!computes) return CostGroup::memory;
  const MatmulEfficiency& efficiency = efficiency_of(profile.compute_capability).matmul;
  if (op.detail != Operation::no_kernel)
    return group_of(device_work(schedule.kernels[op.detail]), efficiency);
  if (op.work != Operation::no_work) return group_of(schedule.works[op.work], efficiency);
  return op.flops.count > 0 ? CostGroup::products : CostGroup::memory;
}

CostSpreads spreads_of(const HardwareProfile& profile) {
  CostSpreads spreads;
  const auto set = [&](CostGroup group, double spread) {
    spreads.of_group[index_of(group)] = spread;
  };
  set(CostGroup::links, spread_of(profile, {"collectives", "link", "node"}));
  // Where a profile has a node, what was measured of collectives is within it.
  set(CostGroup::network, profile.node ? spread_of(profile, {"network", "interconnect"})
                                       : spread_of(profile, {"collectives", "network"}));
  set(CostGroup::host, spread_of(profile, {"host", "operation_overhead"}));
  if (profile.module_hook) set(CostGroup::hooks, spread_of(profile, {"module_hook"}));
  const DeviceEfficiency& device = efficiency_of(profile.compute_capability);
  set(CostGroup::convolutions, spread_of(device.convolution.provenance));
  set(CostGroup::recurrent, spread_of(device.recurrent.provenance));
  if (!profile.kernels.empty()) {
    const double measured = spread_of(profile, {"kernels"});
    for (const CostGroup group : {CostGroup::products, CostGroup::batched, CostGroup::unaligned,
                                  CostGroup::attention, CostGroup::memory})
      set(group, measured);
    spreads.of_model = model_spread_measured;
    return spreads;
  }
  set(CostGroup::products, spread_of(device.matmul.provenance));
  set(CostGroup::batched, device.matmul.batched_spread);
  set(CostGroup::unaligned, device.matmul.unaligned_batch_spread);
  set(CostGroup::memory, spread_of(device.memory.provenance));
  for (const AttentionEfficiency& row : device.attention)
    set(CostGroup::attention,
        std::max(spreads.of_group[index_of(CostGroup::attention)], spread_of(row.provenance)));
  spreads.of_model = model_spread_of_data_sheets;
  return spreads;
}

std::string_view name_of(CostGroup group) {
  constexpr std::array<std::string_view, cost_group_count> names{"matrix products",
                                                                 "batched products",
                                                                 "unaligned products",
                                                                 "attention",
                                                                 "convolutions",
                                                                 "recurrent networks",
                                                                 "memory traffic",
                                                                 "links",
                                                                 "network",
                                                                 "host",
                                                                 "hooks of modules"};
  return names[index_of(group)];
}

bool PresentGroups::move_by(const GroupValues& factors) const {
  for (std::size_t group = 0; group < cost_group_count; ++group)
    if ((is_present_[group] || group >= index_of(CostGroup::host)) && factors[group] != 1)
      return true;
  return false;
}

ScaledStep where_moved(const PresentGroups& present, ScaledStep step) {
  GroupValues ones;
  ones.fill(1);
  const Duration unmoved = step(ones);
  return [present, unmoved, step = std::move(step)](const GroupValues& factors) {
    return present.move_by(factors) ? step(factors) : unmoved;
  };
}

StepTimeMoves step_time_moves(const ScaledStep& step, const CostSpreads& spreads) {
  GroupValues factors;
  factors.fill(1);
  const Duration time = step(factors);
  StepTimeMoves moves{.of_model = spreads.of_model};
  for (std::size_t group = 0; group < cost_group_count; ++group) {
    if (spreads.of_group[group] <= 0) continue;
    factors[group] = 1 + spreads.of_group[group];
    moves.of_group[group] = difference(step(factors), time);
    factors[group] = 1;
  }
  return moves;
}

StepTimeBand step_time_band(const StepTimeMoves& moves) {
  double squares = square(moves.of_model);
  for (const double move : moves.of_group) squares += square(move);
  return band_of(squares);
}

StepTimeBand step_time_band(const ScaledStep& step, const CostSpreads& spreads) {
  return step_time_band(step_time_moves(step, spreads));
}

StepTimeBand ratio_band(const StepTimeMoves& of, const StepTimeMoves& other) {
  double squares = square(of.of_model) + square(other.of_model);
  for (std::size_t group = 0; group < cost_group_count; ++group)
    squares += square(other.of_group[group] - of.of_group[group]);
  return band_of(squares);
}

StepTimeMoves step_time_moves(const Schedule& schedule, const HardwareProfile& profile) {
  const CostModel model(profile);
  const StepProgram program = step_program(schedule);
  const StepCosts costs = step_costs(schedule, program, model, profile);
  return step_time_moves(scaled_step(schedule, program, costs, profile), spreads_of(profile));
}

StepTimeBand step_time_band(const Schedule& schedule, const HardwareProfile& profile) {
  return step_time_band(step_time_moves(schedule, profile));
}

ScaledStep scaled_step(const Schedule& schedule, const StepProgram& program, const StepCosts& costs,
                       const HardwareProfile& profile) {
  std::vector<CostGroup> groups;
  PresentGroups present;
  for (const OperationId example : program.examples) {
    groups.push_back(cost_group(schedule, schedule.at(example), profile));
    present.add(groups.back());
  }
  return where_moved(present, [&program, costs, groups](const GroupValues& factors) {
    StepCosts moved = costs;
    for (std::size_t i = 0; i < groups.size(); ++i)
      moved.times[i] = scaled(costs.times[i], factors[index_of(groups[i])]);
    moved.clock = with_host_times(costs.clock, factors[index_of(CostGroup::host)],
                                  factors[index_of(CostGroup::hooks)]);
    return play(program, moved).accounting.span;
  });
}

}  // namespace shardscope
