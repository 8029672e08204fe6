// What a DeepSpeed configuration asks of its runtime.
#pragma once

#include "core/config/deepspeed/deepspeed_config.h"
#include "core/pytorch/runtimes/deepspeed/settings.h"

namespace shardscope {

/// Throws Error where a value passes DeepSpeed's own checks and is no number all the same
/// ("gradient_clipping": "auto").
DeepSpeedSettings settings_of(const DeepSpeedConfig& config);

}  // namespace shardscope
