// Which traces of a folder are ranks of one run.
#pragma once

#include <cstddef>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// Indices of the traces of each run, in the order of its first one. Traces are of one run where
/// their ranks differ and their worlds do not; where neither says its rank, where their files'
/// names differ in numbers alone; and where both say when they were taken, less than a minute
/// apart. Of several such runs the one nearest in time is taken.
std::vector<std::vector<std::size_t>> runs_of(const std::vector<ImportedTrace>& traces);

}  // namespace shardscope
