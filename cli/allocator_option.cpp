#include "cli/allocator_option.h"

#include <fmt/format.h>

#include <cstdlib>

namespace shardscope {

void declare_allocator_option(Command& command, std::optional<std::string>& allocator) {
  command.option("--allocator", allocator,
                 {"SETTINGS",
                  "settings of the caching allocator, such as \"expandable_segments:True\" "
                  "(default: PYTORCH_ALLOC_CONF, else PYTORCH_CUDA_ALLOC_CONF)"});
}

AllocatorSettings allocator_settings(const std::optional<std::string>& allocator,
                                     std::vector<std::string>& assumed) {
  if (allocator) return parse_allocator_settings(*allocator, "--allocator");
  for (const char* variable : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    assumed.push_back(fmt::format("allocator settings \"{}\" of {} (--allocator)", text, variable));
    return parse_allocator_settings(text, variable);
  }
  return {};
}

}  // namespace shardscope
