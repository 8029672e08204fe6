// Memory of a step whose buffers lie in an arena: it changes when the host reaches an operation.
#pragma once

#include <functional>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/engine/simulate.h"

namespace shardscope {

struct ArenaMemory {
  StepMemory memory;
  std::vector<MemorySample> samples;
};

/// `reached` tells when the host allocates for an operation, `end` when the step ends. What an
/// operation allocates is included, what earlier ones freed is gone; between steps what no
/// operation allocates is left.
ArenaMemory memory_of_arena(const Schedule& schedule, const Step& step,
                            const std::function<Duration(std::uint32_t)>& reached, Duration end);

/// Raises peaks to what lives now.
void note_peak(const CategoryBytes& live, OperationId operation, StepMemory& memory);

}  // namespace shardscope
