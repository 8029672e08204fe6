#include "core/native/visits.h"

#include <algorithm>
#include <set>
#include <utility>

namespace shardscope {
namespace {

constexpr UnitId root = UnitId::of(0);

UnitId unit_of(const Place& place, const OperatorGraph& graph, const UnitPlan& plan) {
  const bool in_block = place.block >= 0 && place.block < graph.blocks;
  return in_block ? plan.unit_of_block[static_cast<std::size_t>(place.block)] : root;
}

/// Operators of one stage, forward and backward.
struct StageOperators {
  std::vector<const Operator*> forward, backward;
  /// The parts of `backward` where it is split.
  std::vector<const Operator*> backward_input, backward_weight;
  /// Behind a forward that is run again.
  std::vector<const Operator*> backward_again;
  const std::vector<const Operator*>& of(ActionKind kind, bool again) const {
    switch (kind) {
      case ActionKind::forward:
        return forward;
      case ActionKind::backward_input:
        return backward_input;
      case ActionKind::backward_weight:
        return backward_weight;
      default:
        return again ? backward_again : backward;
    }
  }
};

bool is_in(const Place& place, const StageSegment& stage, const OperatorGraph& graph) {
  if (place.block == Place::before_blocks) return stage.begins;
  if (place.block >= graph.blocks) return stage.ends;
  return place.block >= stage.first_block && place.block < stage.first_block + stage.blocks;
}

StageOperators operators_of(const OperatorGraph& graph, const StageSegment& stage) {
  StageOperators operators;
  const auto add = [&](const std::vector<Operator>& from, std::vector<const Operator*>& to) {
    for (const Operator& op : from)
      if (is_in(op.place, stage, graph)) to.push_back(&op);
  };
  add(graph.forward, operators.forward);
  add(graph.loss, operators.backward);
  add(graph.backward, operators.backward);
  add(graph.loss_again, operators.backward_again);
  add(graph.backward_again, operators.backward_again);
  const auto is_of_weight = [&](const Operator* op) {
    return op->kernel.kind() == KernelKind::linear_backward_weight && op->place.block >= 0 &&
           op->place.block < graph.blocks;
  };
  for (const Operator* op : operators.backward)
    (is_of_weight(op) ? operators.backward_weight : operators.backward_input).push_back(op);
  return operators;
}

class VisitMaker {
 public:
  VisitMaker(const OperatorGraph& graph, const UnitPlan& plan) : graph_(graph), plan_(plan) {
    for (const GraphSegment& segment : graph.segments)
      stages_.push_back(operators_of(graph, segment.stage));
  }

  void add(std::size_t segment, ActionKind kind, int micro_batch) {
    const bool again = micro_batch < graph_.micro_batches_again;
    for (const Operator* op : stages_[segment].of(kind, again)) {
      const UnitId unit = unit_of(op->place, graph_, plan_);
      const bool same = !visits_.empty() && visits_.back().unit == unit &&
                        visits_.back().micro_batch == micro_batch &&
                        visits_.back().phase == op->phase;
      if (!same) visits_.push_back({unit, micro_batch, op->phase, {}});
      visits_.back().operators.push_back(op);
    }
  }

  std::size_t count() const { return visits_.size(); }
  std::vector<Visit> visits() && { return std::move(visits_); }

 private:
  const OperatorGraph& graph_;
  const UnitPlan& plan_;
  std::vector<StageOperators> stages_;  ///< by segment
  std::vector<Visit> visits_;
};

std::size_t segment_of(const OperatorGraph& graph, int stage) {
  const auto found = std::ranges::find_if(
      graph.segments, [&](const GraphSegment& one) { return one.stage.stage == stage; });
  return static_cast<std::size_t>(found - graph.segments.begin());
}

bool is_needed(ActionKind transfer, const GraphSegment& segment) {
  if (transfer == ActionKind::send_backward) return segment.sent_gradient.valid();
  return transfer != ActionKind::receive_backward || segment.received_gradient.valid();
}

}  // namespace

std::vector<Visit> visits_of(const OperatorGraph& graph, const UnitPlan& plan, int micro_batches) {
  VisitMaker maker(graph, plan);
  for (int m = 0; m < micro_batches; ++m)
    for (const ActionKind kind : {ActionKind::forward, ActionKind::full_backward})
      maker.add(0, kind, m);
  return std::move(maker).visits();
}

VisitPlan pipelined_visits(const OperatorGraph& graph, const UnitPlan& plan,
                           const ActionOrder& order) {
  VisitMaker maker(graph, plan);
  std::vector<StageTransfer> transfers;
  for (const ActionSlot& slot : order) {
    for (const Action& action : slot.actions()) {
      const std::size_t segment = segment_of(graph, action.stage);
      if (is_compute(action.kind)) maker.add(segment, action.kind, action.micro_batch);
      const bool moves = is_send(action.kind) || is_receive(action.kind);
      if (moves && is_needed(action.kind, graph.segments[segment]))
        transfers.push_back({maker.count(), action.kind, segment, action.micro_batch});
    }
  }
  return {std::move(maker).visits(), std::move(transfers)};
}

std::vector<bool> completes_gradient(const std::vector<Visit>& visits, std::size_t units) {
  std::vector<bool> completes(visits.size(), false);
  std::vector<std::set<int>> seen(units);  // micro-batches whose last visit was found
  for (std::size_t i = visits.size(); i-- > 0;) {
    const Visit& visit = visits[i];
    completes[i] =
        visit.phase == Phase::backward && seen[visit.unit.value].insert(visit.micro_batch).second;
  }
  return completes;
}

std::vector<bool> ends_backward(const std::vector<Visit>& visits, std::size_t units) {
  std::vector<bool> ends(visits.size(), false);
  std::vector<bool> seen(units, false);
  for (std::size_t i = visits.size(); i-- > 0;) {
    if (visits[i].phase != Phase::backward || seen[visits[i].unit.value]) continue;
    seen[visits[i].unit.value] = true;
    ends[i] = true;
  }
  return ends;
}

bool kept_after(const std::vector<Visit>& visits, std::size_t i) {
  if (visits[i].unit == root) return true;
  for (std::size_t next = i + 1; next < visits.size(); ++next)
    if (visits[next].unit != root) return visits[next].unit == visits[i].unit;
  return false;
}

bool kept_in_pipeline(const std::vector<Visit>& visits, std::size_t i) {
  if (visits[i].unit == root) return true;
  return std::any_of(visits.begin() + static_cast<std::ptrdiff_t>(i) + 1, visits.end(),
                     [&](const Visit& later) { return later.unit == visits[i].unit; });
}

}  // namespace shardscope
