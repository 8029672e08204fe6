// Which curve of one side belongs beside a curve of another.
#pragma once

#include <optional>
#include <vector>

#include "gui/data/memory_sources.h"

namespace shardscope::gui {

/// Of the profiled side, else of the predicted one: what can be chosen.
std::vector<MemorySource> sources_to_choose(const Scenario& scenario);

/// Of `sources`, which are those of one side, the one of the same rank and device as `wanted`: one
/// of the same kind where there is one. A prediction stands for all ranks. None where nothing is of
/// that rank or device.
std::optional<MemorySource> matching_source(const std::vector<MemorySource>& sources,
                                            const MemorySource& wanted);

}  // namespace shardscope::gui
