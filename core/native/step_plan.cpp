#include "core/native/step_plan.h"

#include <algorithm>
#include <deque>

namespace shardscope {
namespace {

using Kind = StepAction::Kind;

StepAction action_of(Kind kind, const std::vector<Visit>& visits, std::uint32_t visit) {
  return {.kind = kind,
          .unit = visits[visit].unit,
          .visit = visit,
          .micro_batch = visits[visit].micro_batch,
          .phase = visits[visit].phase};
}

std::size_t unit_count(const std::vector<Visit>& visits) {
  std::size_t count = 0;
  for (const Visit& visit : visits) count = std::max<std::size_t>(count, visit.unit.value + 1);
  return count;
}

bool writes_parameter_gradient(const Operator& op, const OperatorGraph& graph) {
  return std::ranges::any_of(op.operands, [&](const GraphOperand& operand) {
    return operand.value && graph.values[operand.value.value].role == ValueRole::parameter_gradient;
  });
}

class Reductions {
 public:
  Reductions(const std::vector<Visit>& visits, const OperatorGraph& graph,
             const ReductionRules& rules)
      : visits_(visits),
        graph_(graph),
        rules_(rules),
        has_storage_(unit_count(visits), false),
        completes_(completes_gradient(visits, has_storage_.size())) {}

  std::vector<StepAction> add_to(const std::vector<StepAction>& actions) {
    for (const StepAction& action : actions) {
      compute(action);
      if (action.operators.end == visits_[action.visit].operators.size()) end_visit(action);
    }
    while (!in_flight_.empty()) await_oldest(actions.back().visit);
    return std::move(result_);
  }

 private:
  void compute(StepAction action) {
    const Visit& visit = visits_[action.visit];
    const IndexRange operators = action.operators;
    for (std::uint32_t i = operators.begin; i < operators.end; ++i) {
      const bool begins =
          !has_storage_[visit.unit.value] && writes_parameter_gradient(*visit.operators[i], graph_);
      if (!begins) continue;
      action.operators.end = i;
      if (action.operators.size() > 0) result_.push_back(action);
      begin_gradients(action.visit);
      action.operators = {i, operators.end};
    }
    result_.push_back(action);
  }

  void begin_gradients(std::uint32_t visit) {
    while (rules_.gradients_sharded && in_flight_.size() > 1) await_oldest(visit);
    result_.push_back(action_of(Kind::begin_gradients, visits_, visit));
    has_storage_[visits_[visit].unit.value] = true;
  }

  void end_visit(const StepAction& action) {
    const bool last = action.micro_batch + 1 == rules_.micro_batches;
    const bool reduces = completes_[action.visit] && has_storage_[action.unit.value] &&
                         (last || rules_.every_micro_batch);
    if (!reduces) return;
    result_.push_back(action_of(Kind::reduce, visits_, action.visit));
    if (!rules_.gradients_sharded) return;
    has_storage_[action.unit.value] = false;
    in_flight_.push_back(result_.back());
  }

  /// In the course of another visit.
  void await_oldest(std::uint32_t visit) {
    StepAction action = in_flight_.front();
    in_flight_.pop_front();
    action.kind = Kind::await_reduction;
    action.visit = visit;
    result_.push_back(action);
  }

  const std::vector<Visit>& visits_;
  const OperatorGraph& graph_;
  ReductionRules rules_;
  std::vector<bool> has_storage_;  ///< by unit
  std::vector<bool> completes_;    ///< by visit
  std::deque<StepAction> in_flight_;
  std::vector<StepAction> result_;
};

}  // namespace

std::vector<StepAction> compute_actions(const std::vector<Visit>& visits) {
  std::vector<StepAction> actions;
  for (std::uint32_t visit = 0; visit < visits.size(); ++visit) {
    actions.push_back(action_of(Kind::compute, visits, visit));
    actions.back().operators = {0, static_cast<std::uint32_t>(visits[visit].operators.size())};
  }
  return actions;
}

std::vector<StepAction> with_reductions(const std::vector<StepAction>& actions,
                                        const std::vector<Visit>& visits,
                                        const OperatorGraph& graph, const ReductionRules& rules) {
  return Reductions(visits, graph, rules).add_to(actions);
}

std::vector<StepAction> with_gathers(const std::vector<StepAction>& actions,
                                     const std::vector<Visit>& visits, bool prefetch) {
  std::vector<bool> gathered(unit_count(visits), false);
  std::vector<StepAction> result;
  const auto gather = [&](std::uint32_t visit) {
    if (visit >= visits.size() || gathered[visits[visit].unit.value]) return;
    gathered[visits[visit].unit.value] = true;
    result.push_back(action_of(Kind::gather, visits, visit));
  };
  std::uint32_t next_visit = 0;
  for (const StepAction& action : actions) {
    if (action.visit == next_visit) {
      gather(next_visit++);
      if (prefetch) gather(next_visit);
    }
    result.push_back(action);
    const bool ends = action.kind == Kind::compute &&
                      action.operators.end == visits[action.visit].operators.size();
    if (!ends || kept_after(visits, action.visit)) continue;
    gathered[action.unit.value] = false;
    result.push_back(action_of(Kind::release, visits, action.visit));
  }
  return result;
}

}  // namespace shardscope
