// Runs one kernel of the CPU device on vectors.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/kernel.h"

namespace shardscope::recordings {

/// Operands in the kernel's order without the workspace; null where absent.
void run_kernel(const Kernel& kernel, std::initializer_list<void*> operands,
                const std::vector<Slice>& slices = {}, StepState state = {});

}  // namespace shardscope::recordings
