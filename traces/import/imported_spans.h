// An imported trace as our own kind, for pictures and run folders.
#pragma once

#include <optional>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// The activities of a rank's devices and its steps: streams become tracks by what they mostly do
/// (the first that computes is `compute`, others by their collectives and copies), collectives get
/// facts. Time 0 is the first activity's start. A trace without a device gives no spans.
Trace device_spans(const ImportedTrace& trace);

/// The same with each device's by itself, under its own ordinal (`local_rank`). Of a trace without
/// a device, its host's threads: operators count as compute, calls of gloo and nccl as
/// communication, and all else is there as annotations.
std::vector<Trace> rank_traces(const ImportedTrace& trace);

/// A rank of a run: a file's, or where that has several devices, one of these.
struct ImportedRank {
  std::size_t trace = 0;  ///< index into the traces
  Trace spans;            ///< numbered by `ranks_of`, all with the same world
};

/// The ranks that the files of one run amount to, in their order.
std::vector<ImportedRank> run_ranks(const std::vector<ImportedTrace>& traces);

/// The ranks of several traces: as they say, where each says one below 1,000,000 that no other
/// has; else by place.
std::vector<int> ranks_of(const std::vector<std::optional<int>>& said);

}  // namespace shardscope
