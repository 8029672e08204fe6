#include "tests/recordings/configs_launch.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace shardscope::recordings {

using Json = nlohmann::ordered_json;

namespace {

bool is_shown(std::string_view name) {
  constexpr std::string_view prefixes[] = {
      "FSDP_", "ACCELERATE_", "PARALLELISM_CONFIG_", "MEGATRON_LM_", "XLA_", "KMP_", "NCCL_"};
  constexpr std::string_view names[] = {"OMP_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT",
                                        "CUDA_VISIBLE_DEVICES", "MIXED_PRECISION"};
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

Environment shown_environment(const Environment& environment) {
  Environment shown;
  for (const auto& [name, value] : environment)
    if (is_shown(name)) shown[name] = value;
  return shown;
}

/// The files that the case's folder holds.
ReadFile files_of(const Json& input) {
  return [files = input.value("files", Json::object())](
             const std::string& path) -> std::optional<std::string> {
    if (!files.contains(path)) return std::nullopt;
    const Json& content = files.at(path);
    return content.is_string() ? content.get<std::string>() : content.dump();
  };
}

}  // namespace shardscope::recordings
