// A predicted trace, taken apart for a match: its steps and their collectives and operators in the
// order in which the host issues them, and its units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/intervals.h"
#include "traces/trace.h"

namespace shardscope {

struct PredictedOperation {
  const OperationFacts* facts = nullptr;  ///< of the trace, which must outlive it
  Duration duration;
};

struct PredictedStep {
  std::int32_t number = 0;  ///< from 1
  TimeWindow window;
  std::vector<PredictedOperation> collectives;
  std::vector<PredictedOperation> operators;  ///< kernels and copies
};

struct PredictedSchedule {
  std::vector<PredictedStep> steps;
  /// In the order of their first operation; "" is the root, and all that there is under DDP.
  std::vector<std::string> units;
};

PredictedSchedule predicted_schedule(const Trace& trace);

/// Whether a collective works for a unit: those between backward and optimizer, and before the
/// first step, work for none.
bool has_unit(const OperationFacts& facts);

}  // namespace shardscope
