#include "tests/recordings/deepspeed_case.h"

#include <optional>
#include <string>

#include "core/config/deepspeed/deepspeed_config.h"
#include "tests/recordings/configs_plain.h"

namespace shardscope::recordings {

DeepSpeedSettings recorded_deepspeed_settings(nlohmann::ordered_json config, std::int64_t world) {
  const nlohmann::ordered_json defaults{{"train_micro_batch_size_per_gpu", 2},
                                        {"zero_allow_untested_optimizer", true},
                                        {"zero_force_ds_cpu_optimizer", false},
                                        {"gradient_accumulation_steps", 1}};
  for (const auto& [key, value] : defaults.items())
    if (!config.contains(key)) config[key] = value;
  const auto no_files = [](const std::string&) -> std::optional<std::string> { return {}; };
  return settings_of(effective_deepspeed_config(config_value(config), world, no_files));
}

}  // namespace shardscope::recordings
