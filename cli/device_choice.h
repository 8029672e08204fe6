// Where a job runs, and in which precision, where nobody said.
#pragma once

#include <string>
#include <vector>

#include "core/native/job.h"

namespace shardscope {

/// Makes "auto" a device, and gives a job without a precision the device's usual one: bf16_mixed on
/// cuda, fp32 on cpu. `local_ranks` run on this host. Returns what was assumed and why: "device
/// cpu, because no NVIDIA driver was found (--device)".
std::vector<std::string> choose_device(Job& job, int local_ranks);

/// The usual precision of `device` where the job says none, and what was assumed.
std::vector<std::string> choose_precision(Job& job, const std::string& device);

}  // namespace shardscope
