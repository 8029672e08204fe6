// Finds the spans of an operation in a step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/trace.h"

namespace shardscope {

/// Index of a trace's spans by step and operation; true until spans are added to the trace.
class OperationSpans {
 public:
  explicit OperationSpans(const Trace& trace);

  /// Index into Trace::spans of the first span on a device track of this operation in this step.
  std::optional<std::uint32_t> find(std::int64_t step, OperationId operation) const;

 private:
  struct Row {
    std::int64_t step;
    OperationId operation;
    std::uint32_t span;
  };
  std::vector<Row> rows_;  ///< by step, operation, span
};

}  // namespace shardscope
