// The order in which a native step comes to its units.
#pragma once

#include <cstddef>
#include <vector>

#include "core/native/operator_graph.h"
#include "core/native/units.h"

namespace shardscope {

/// Operators of one micro-batch that belong to one unit and follow each other; they lie in the
/// graph.
struct Visit {
  UnitId unit;
  int micro_batch = 0;
  Phase phase = Phase::forward;
  std::vector<const Operator*> operators;
};

/// Forward and backward of every micro-batch, visit by visit.
std::vector<Visit> visits_of(const OperatorGraph& graph, const UnitPlan& plan, int micro_batches);

/// By visit: whether it is the last of its unit in the backward of its micro-batch, where the
/// unit's gradient is complete. `units` is their number.
std::vector<bool> completes_gradient(const std::vector<Visit>& visits, std::size_t units);

/// Whether the unit of visit `i` stays gathered behind it: the root does through the step, and so
/// does a unit whose next use comes before any other unit's.
bool kept_after(const std::vector<Visit>& visits, std::size_t i);

}  // namespace shardscope
