#include "core/model/activations.h"

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/model/modules.h"

namespace shardscope {

void check_activation(const ConfigReader& config, std::string_view key, std::string_view name) {
  if (activation_class(name).empty())
    throw config.error(key, fmt::format("unknown activation \"{}\"", shown(name)),
                       "for example \"gelu\" or \"relu\"");
}

std::string read_activation(const ConfigReader& config, std::string_view key) {
  std::string name = config.text(key);
  check_activation(config, key, name);
  return name;
}

}  // namespace shardscope
