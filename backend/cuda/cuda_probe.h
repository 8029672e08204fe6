// What a process learns of a GPU before it starts others to train on it.
#pragma once

#include <string>

#include "core/base/quantities.h"

namespace shardscope {

struct CudaMemory {
  Bytes free;  ///< beside what a process on the device takes for itself, and what others hold
  Bytes total;
};

/// Memory of the device `index`, which this process must not be using: it is let go of again, so
/// that nothing of ours stays there. Throws Error (ExitCode::outside) where there is none.
CudaMemory probe_cuda_memory(int index = 0);

/// "0000:65:00.0": where the device `index` sits; empty where there is none.
std::string cuda_bus_place(int index);

/// "1980 of 1980 MHz, memory 2619 MHz, 118 of 700 W, P0", as the driver's management library says
/// it now; empty where that is not to be had.
std::string cuda_clocks(int index = 0);

}  // namespace shardscope
