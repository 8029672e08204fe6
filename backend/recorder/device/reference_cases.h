// What the recorders of our reference cases ask of a simulated device, from inside their scripts
// and for each case anew: environment variables that their own devices know (docs/recording.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace shardscope::recorder {

/// NULL_MEM_GIB or NULLCUDA_MEM_GIB.
std::optional<std::size_t> memory_of_case();

/// NULLCUDA_LAG: 1 is what `--time sync` is, 0 is `--time zero`.
std::optional<bool> waits_for_sync();

/// NULL_LOG=PATH: a call of NCCL is told as a line of PATH.PID, "NCCL AllGather count 1024".
void tell_call(std::string_view collective, std::size_t count);

}  // namespace shardscope::recorder
