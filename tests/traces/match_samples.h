// Small predictions and traces of the same run, for tests of how they are matched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/trace.h"

namespace shardscope::samples {

/// A predicted trace that grows operation by operation, each 1 us long, of steps 1, 2, ...
class PredictedRun {
 public:
  explicit PredictedRun(int world = 2);
  /// Operations from here on are of the next step.
  PredictedRun& step();
  /// ... of the next micro-batch of the step.
  PredictedRun& micro_batch();
  PredictedRun& collective(OperationKind kind, Phase phase, std::string unit, std::int64_t in,
                           std::int64_t out);
  PredictedRun& compute(std::string name, std::string_view shapes, std::string unit);
  const Trace& trace() const { return trace_; }

 private:
  void add(OperationFacts facts);
  std::uint32_t intern(std::string_view name);

  Trace trace_;
  std::int32_t step_ = 0;
  std::int32_t micro_batch_ = 0;
};

/// An event of thread 2; times in whole microseconds.
std::string host_event(std::string_view category, std::string_view name, int start, int duration,
                       std::string_view dims = {});
/// An operator of c10d or aten.
std::string host_operator(std::string_view name, int start, int duration, std::string_view dims);
std::string annotation(std::string_view name, int start, int duration);

/// The trace of a rank of `world`.
ImportedTrace traced(const std::vector<std::string>& events, int world = 2);

}  // namespace shardscope::samples
