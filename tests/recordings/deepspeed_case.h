// A recorded case's DeepSpeed configuration, as the recorders hand it to deepspeed.initialize.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/config/deepspeed/settings.h"

namespace shardscope::recordings {

/// `config` with the recorders' defaults, then DeepSpeed's own.
DeepSpeedSettings recorded_deepspeed_settings(nlohmann::ordered_json config, std::int64_t world);

}  // namespace shardscope::recordings
