#include "cli/hardware_choice.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/quantities.h"
#include "sim/hardware/builtin_profiles.h"

namespace shardscope {
std::filesystem::path calibrated_profile_path(std::string_view device) {
  const char* file =
      device == "cuda" ? "shardscope/hardware_cuda.json" : "shardscope/hardware.json";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / file;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr && *home != '\0' ? home : "/tmp") / ".cache" / file;
}

std::optional<HardwareChoice> find_hardware(const std::optional<std::string>& cluster,
                                            std::string_view device) {
  if (cluster)
    return HardwareChoice{find_hardware_profile(*cluster, "--cluster"), "--cluster " + *cluster};
  const std::filesystem::path path = calibrated_profile_path(device);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return HardwareChoice{read_hardware_profile(path), "calibrated: " + path.string()};
}

HardwareChoice require_hardware(const std::optional<std::string>& cluster) {
  for (const char* device : {"cuda", "cpu"})
    if (auto choice = find_hardware(cluster, device)) return *std::move(choice);
  throw Error(
      {.where = "--cluster",
       .what = "no machine was given and this one was not measured yet",
       .way_out = fmt::format(
           "run `shardscope calibrate`, or give a hardware profile's file or a ready one: {}",
           builtin_profile_advice(""))});
}

HardwareChoice require_hardware(const std::optional<std::string>& cluster,
                                const std::optional<std::string>& device_memory) {
  HardwareChoice choice = require_hardware(cluster);
  if (!device_memory) return choice;
  choice.profile.memory = parse_bytes(*device_memory, "--device-memory");
  if (choice.profile.memory <= Bytes{})
    throw Error({.where = "--device-memory",
                 .what = fmt::format("expected more than 0 bytes, got \"{}\"", *device_memory)});
  return choice;
}

}  // namespace shardscope
