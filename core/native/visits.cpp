#include "core/native/visits.h"

#include <utility>

namespace shardscope {
namespace {

constexpr UnitId root = UnitId::of(0);

UnitId unit_of(const Place& place, const OperatorGraph& graph, const UnitPlan& plan) {
  const bool in_block = place.block >= 0 && place.block < graph.blocks;
  return in_block ? plan.unit_of_block[static_cast<std::size_t>(place.block)] : root;
}

}  // namespace

std::vector<Visit> visits_of(const OperatorGraph& graph, const UnitPlan& plan, int micro_batches) {
  std::vector<Visit> visits;
  for (int m = 0; m < micro_batches; ++m) {
    for (const auto* operators : {&graph.forward, &graph.loss, &graph.backward}) {
      for (const Operator& op : *operators) {
        const UnitId unit = unit_of(op.place, graph, plan);
        const bool same = !visits.empty() && visits.back().unit == unit &&
                          visits.back().micro_batch == m && visits.back().phase == op.phase;
        if (!same) visits.push_back({unit, m, op.phase, {}});
        visits.back().operators.push_back(&op);
      }
    }
  }
  return visits;
}

std::vector<bool> completes_gradient(const std::vector<Visit>& visits, std::size_t units) {
  std::vector<bool> completes(visits.size(), false);
  std::vector<int> seen(units, -1);  // micro-batch whose last visit was found
  for (std::size_t i = visits.size(); i-- > 0;) {
    const Visit& visit = visits[i];
    if (visit.phase != Phase::backward || seen[visit.unit.value] == visit.micro_batch) continue;
    seen[visit.unit.value] = visit.micro_batch;
    completes[i] = true;
  }
  return completes;
}

bool kept_after(const std::vector<Visit>& visits, std::size_t i) {
  if (visits[i].unit == root) return true;
  for (std::size_t next = i + 1; next < visits.size(); ++next)
    if (visits[next].unit != root) return visits[next].unit == visits[i].unit;
  return false;
}

}  // namespace shardscope
