#include "core/config/convert/convert.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/config/convert/formats.h"
#include "core/config/values/config_json.h"
#include "core/config/yaml/yaml_writer.h"

namespace shardscope {
namespace {

constexpr std::pair<std::string_view, ConfigFormat> format_names[] = {
    {"accelerate-v1", ConfigFormat::accelerate_v1}, {"accelerate-v2", ConfigFormat::accelerate_v2},
    {"deepspeed", ConfigFormat::deepspeed},         {"accelerate", ConfigFormat::accelerate_v2},
    {"fsdp1", ConfigFormat::accelerate_v1},         {"fsdp2", ConfigFormat::accelerate_v2},
};

}  // namespace

std::string_view name_of(ConfigFormat format) {
  for (const auto& [name, value] : format_names)
    if (value == format) return name;
  return "?";
}

ConfigFormat parse_config_format(std::string_view text, std::string_view where) {
  for (const auto& [name, format] : format_names)
    if (name == text) return format;
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of accelerate-v1, accelerate-v2, deepspeed, "
                                   "llama-factory, trl, axolotl, ms-swift",
                                   text)});
}

ConfigValue written(const PortableStrategy& strategy, ConfigFormat format) {
  switch (format) {
    case ConfigFormat::accelerate_v1:
      return accelerate_config(strategy, 1);
    case ConfigFormat::accelerate_v2:
      return accelerate_config(strategy, 2);
    case ConfigFormat::deepspeed:
      return deepspeed_config(strategy);
  }
  return {};
}

Conversion convert(const ConfigFile& file, ConfigFormat format, const ConfigPlace& place) {
  const FittedStrategy fit = fitted(read_strategy(file, value_of(file), place), format);
  const ConfigValue config = written(fit.strategy, format);
  const bool yaml = format != ConfigFormat::deepspeed;
  return {.text = yaml ? yaml_text(config) : json_text(config, 2) + "\n", .losses = fit.losses};
}

}  // namespace shardscope
