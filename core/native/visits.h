// The order in which a native step comes to its units.
#pragma once

#include <cstddef>
#include <vector>

#include "core/native/operator_graph.h"
#include "core/native/units.h"
#include "core/pipeline/action.h"

namespace shardscope {

/// Operators of one micro-batch that belong to one unit and follow each other; they lie in the
/// graph.
struct Visit {
  UnitId unit;
  int micro_batch = 0;
  Phase phase = Phase::forward;
  std::vector<const Operator*> operators;
};

/// A send or receive of a stage, before a visit or, where that is their number, behind the last.
struct StageTransfer {
  std::size_t before_visit = 0;
  ActionKind kind = ActionKind::send_forward;
  std::size_t segment = 0;  ///< of the graph
  int micro_batch = 0;
};

struct VisitPlan {
  std::vector<Visit> visits;
  std::vector<StageTransfer> transfers;  ///< in order
};

/// Forward and backward of every micro-batch, visit by visit. The loss and the head's gradients go
/// with the backward.
std::vector<Visit> visits_of(const OperatorGraph& graph, const UnitPlan& plan, int micro_batches);

/// The same in the order of a pipeline's rank. Gradients that nobody needs are not sent. Where the
/// backward is split, the weight gradients of the blocks' linear layers are its second part.
VisitPlan pipelined_visits(const OperatorGraph& graph, const UnitPlan& plan,
                           const ActionOrder& order);

/// By visit: whether it is the last of its unit in the backward of its micro-batch, where the
/// unit's gradient is complete. `units` is their number.
std::vector<bool> completes_gradient(const std::vector<Visit>& visits, std::size_t units);

/// By visit: whether it is the last of its unit in any backward.
std::vector<bool> ends_backward(const std::vector<Visit>& visits, std::size_t units);

/// Whether the unit of visit `i` stays gathered behind it: the root does through the step, and so
/// does a unit whose next use comes before any other unit's.
bool kept_after(const std::vector<Visit>& visits, std::size_t i);

/// Under a pipeline a unit stays gathered until its last visit.
bool kept_in_pipeline(const std::vector<Visit>& visits, std::size_t i);

}  // namespace shardscope
