// Rules by which a difference between a prediction and a real run is explained.
#pragma once

#include <vector>

#include "traces/differences.h"
#include "traces/operation_runs.h"
#include "traces/operation_spans.h"
#include "traces/trace.h"

namespace shardscope {

/// What the rules look at; everything outlives it.
class DifferenceEvidence {
 public:
  /// `profiled` as `find_differences` takes them.
  DifferenceEvidence(const Trace& predicted, std::vector<const Trace*> profiled);

  const Trace& plan() const { return plan_; }
  const Trace& real() const { return *profiled_.front(); }
  const OperationFacts* facts(OperationId operation) const { return facts_.find(operation); }

  /// Who came last to a collective, and how long after this rank: as an instrument measured it,
  /// else by the ranks' traces, where that is more than their clocks may be off. None: nobody.
  struct LatePeer {
    int rank = 0;
    Duration by;
  };
  std::optional<LatePeer> late_peer(std::uint32_t span) const;

  /// Cycles per nanosecond of all that was measured, the median; 0: not measured.
  double usual_clock() const { return usual_clock_; }

 private:
  std::optional<LatePeer> late_peer_by_traces(const Span& span) const;

  const Trace& plan_;
  std::vector<const Trace*> profiled_;
  FactsTable facts_;
  std::vector<OperationSpans> spans_;  ///< by trace
  double usual_clock_ = 0;
};

/// The first rule that applies; else unknown, and says so.
Cause cause_of(const OperationDifference& difference, const OperationRun& plan,
               const OperationRun& real, const DifferenceEvidence& evidence);

}  // namespace shardscope
