// Predicted memory beside what a trace's [memory] events say.
#pragma once

#include <optional>
#include <string>

#include "core/base/side_by_side.h"
#include "traces/match/match.h"

namespace shardscope {

struct MemoryErrors {
  std::string source;  ///< "[memory] events of the CPU", a snapshot's file
  /// The most above what was live when the step began; of several steps the lower median. None of a
  /// source that does not know steps.
  std::optional<SideBySide<Bytes>> rise;
  /// The most at all. PyTorch's profiler counts on the CPU only what was allocated since it began,
  /// so that there is none.
  std::optional<SideBySide<Bytes>> peak;
};

/// Of the trace's GPU, or else of its CPU; none where it has no [memory] events in a step
/// (profile_memory=True).
std::optional<MemoryErrors> memory_errors(const Trace& predicted, const ImportedTrace& profiled,
                                          const RankMatch& match);

/// The most that is live in the predicted trace's steps.
Bytes predicted_peak(const Trace& predicted);

}  // namespace shardscope
