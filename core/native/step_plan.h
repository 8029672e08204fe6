// What a native step does, in order of issue: the passes that lie between the visits of its units
// and its operations.
#pragma once

#include <cstdint>
#include <vector>

#include "core/native/operator_graph.h"
#include "core/native/visits.h"
#include "core/schedule/strategy.h"

namespace shardscope {

struct StepAction {
  enum class Kind : std::uint8_t {
    compute,          ///< runs `operators` of the visit
    gather,           ///< gathers the unit's parameters
    release,          ///< lets the gathered parameters go
    begin_gradients,  ///< makes the storage that the backward writes the unit's gradient to
    reduce,           ///< reduces the unit's gradient, which is complete
    await_reduction,  ///< compute comes after the oldest reduction, whose input is free then
    transfer,         ///< sends or receives between stages
  };
  Kind kind = Kind::compute;
  UnitId unit;
  std::uint32_t visit = 0;  ///< in whose course it is done
  int micro_batch = 0;
  Phase phase = Phase::forward;
  IndexRange operators = {};  ///< of compute: of the visit's operators
  std::uint32_t moved = 0;    ///< of transfer: into VisitPlan::transfers
  bool operator==(const StepAction&) const = default;
};

/// Forward and backward, without communication but that between stages.
std::vector<StepAction> compute_actions(const std::vector<Visit>& visits,
                                        const std::vector<StageTransfer>& transfers = {});

struct ReductionRules {
  bool gradients_sharded = false;  ///< else gradients stay whole and add up in one storage
  bool every_micro_batch = false;  ///< else the last one only
  /// The root is reduced behind everything else: its tied embedding is summed over two stages, of
  /// which one has it long before the other.
  bool root_last = false;
};
/// A unit's storage for gradients begins before the first operator that writes to it. Its gradient
/// is reduced behind the last visit of its backward, while later ones run. Where gradients are
/// sharded, at most one other unit's is still being reduced while one is written, so that besides
/// the root's no more than two unsharded gradients exist at once. At the end all are awaited.
std::vector<StepAction> with_reductions(const std::vector<StepAction>& actions,
                                        const std::vector<Visit>& visits,
                                        const OperatorGraph& graph, const ReductionRules& rules);

/// Parameters that are sharded are gathered before a visit of their unit, or so many visits ahead
/// of it as `prefetching` says, and released behind it unless the unit is visited next.
/// `kept` tells whether it stays gathered longer (core/native/visits.h).
std::vector<StepAction> with_gathers(const std::vector<StepAction>& actions,
                                     const std::vector<Visit>& visits,
                                     const Prefetching& prefetching,
                                     bool (*kept)(const std::vector<Visit>&,
                                                  std::size_t) = kept_after);

}  // namespace shardscope
