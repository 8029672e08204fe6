#include "core/native/step_plan.h"

#include <algorithm>
#include <deque>
#include <optional>

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
        completes_(rules.every_micro_batch ? completes_gradient(visits, has_storage_.size())
                                           : ends_backward(visits, has_storage_.size())) {}

  std::vector<StepAction> add_to(const std::vector<StepAction>& actions) {
    for (const StepAction& action : actions) {
      if (action.kind == Kind::transfer) {
        result_.push_back(action);
        continue;
      }
      compute(action);
      if (action.operators.end == visits_[action.visit].operators.size()) end_visit(action);
    }
    if (root_visit_) reduce(*root_visit_);
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
    if (!completes_[action.visit] || !has_storage_[action.unit.value]) return;
    if (rules_.root_last && action.unit == UnitId::of(0)) {
      root_visit_ = action.visit;
      return;
    }
    reduce(action.visit);
  }

  void reduce(std::uint32_t visit) {
    result_.push_back(action_of(Kind::reduce, visits_, visit));
    if (!rules_.gradients_sharded) return;
    has_storage_[visits_[visit].unit.value] = false;
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
  std::vector<bool> has_storage_;            ///< by unit
  std::vector<bool> completes_;              ///< by visit: the unit is reduced behind it
  std::optional<std::uint32_t> root_visit_;  ///< behind which the root, which comes last, is whole
  std::deque<StepAction> in_flight_;
  std::vector<StepAction> result_;
};

class Gathers {
 public:
  using Kept = bool (*)(const std::vector<Visit>&, std::size_t);
  Gathers(const std::vector<Visit>& visits, const Prefetching& prefetching, Kept kept)
      : visits_(visits),
        prefetching_(prefetching),
        kept_(kept),
        is_gathered_(unit_count(visits), false) {}

  std::vector<StepAction> add_to(const std::vector<StepAction>& actions) {
    std::uint32_t next_visit = 0;
    for (const StepAction& action : actions) {
      if (action.visit == next_visit) begin_visit(next_visit++);
      result_.push_back(action);
      const bool ends = action.kind == Kind::compute &&
                        action.operators.end == visits_[action.visit].operators.size();
      if (ends) end_visit(action.visit);
    }
    return std::move(result_);
  }

 private:
  bool is_post(std::uint32_t visit) const {
    return visits_[visit].phase == Phase::backward && prefetching_.backward_post;
  }

  void begin_visit(std::uint32_t visit) {
    gather(visit);
    if (!is_post(visit)) prefetch_behind(visit);
  }

  void end_visit(std::uint32_t visit) {
    if (!kept_(visits_, visit)) {
      const UnitId unit = visits_[visit].unit;
      is_gathered_[unit.value] = false;
      if (unit != root) --gathered_;
      result_.push_back(action_of(Kind::release, visits_, visit));
    }
    if (is_post(visit)) prefetch_behind(visit);
  }

  void prefetch_behind(std::uint32_t visit) {
    const bool forward = visits_[visit].phase == Phase::forward;
    const auto ahead =
        static_cast<std::uint32_t>(forward ? prefetching_.forward : prefetching_.backward);
    for (std::uint32_t i = visit + 1; i <= visit + ahead && i < visits_.size(); ++i)
      if (prefetching_.limit == 0 || gathered_ < prefetching_.limit) gather(i);
  }

  void gather(std::uint32_t visit) {
    const UnitId unit = visits_[visit].unit;
    if (is_gathered_[unit.value]) return;
    is_gathered_[unit.value] = true;
    if (unit != root) ++gathered_;
    result_.push_back(action_of(Kind::gather, visits_, visit));
  }

  static constexpr UnitId root = UnitId::of(0);
  const std::vector<Visit>& visits_;
  Prefetching prefetching_;
  Kept kept_;
  std::vector<bool> is_gathered_;  ///< by unit
  int gathered_ = 0;               ///< units, the root aside
  std::vector<StepAction> result_;
};

}  // namespace

std::vector<StepAction> compute_actions(const std::vector<Visit>& visits,
                                        const std::vector<StageTransfer>& transfers) {
  std::vector<StepAction> actions;
  std::uint32_t next = 0;
  const auto transfer_before = [&](std::uint32_t visit) {
    for (; next < transfers.size() && transfers[next].before_visit <= visit; ++next) {
      const std::uint32_t course = visit > 0 ? visit - 1 : 0;
      actions.push_back({.kind = Kind::transfer,
                         .unit = visits[course].unit,
                         .visit = course,
                         .micro_batch = transfers[next].micro_batch,
                         .moved = next});
    }
  };
  for (std::uint32_t visit = 0; visit < visits.size(); ++visit) {
    transfer_before(visit);
    actions.push_back(action_of(Kind::compute, visits, visit));
    actions.back().operators = {0, static_cast<std::uint32_t>(visits[visit].operators.size())};
  }
  transfer_before(static_cast<std::uint32_t>(visits.size()));
  return actions;
}

std::vector<StepAction> with_reductions(const std::vector<StepAction>& actions,
                                        const std::vector<Visit>& visits,
                                        const OperatorGraph& graph, const ReductionRules& rules) {
  return Reductions(visits, graph, rules).add_to(actions);
}

std::vector<StepAction> with_gathers(const std::vector<StepAction>& actions,
                                     const std::vector<Visit>& visits,
                                     const Prefetching& prefetching,
                                     bool (*kept)(const std::vector<Visit>&, std::size_t)) {
  return Gathers(visits, prefetching, kept).add_to(actions);
}

}  // namespace shardscope
