// Which machine a prediction is about.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Where `calibrate` leaves the profile of this machine's `device` unless told otherwise:
/// shardscope/hardware.json ("cuda": hardware_cuda.json) in $XDG_CACHE_HOME, or in ~/.cache.
std::filesystem::path calibrated_profile_path(std::string_view device);

/// A profile and where it came from.
struct HardwareChoice {
  HardwareProfile profile;
  std::string source;  ///< "--cluster h100_sxm", "calibrated: ~/.cache/shardscope/hardware.json"
};

/// The profile that --cluster names, else this machine's calibrated one of `device`, else none.
std::optional<HardwareChoice> find_hardware(const std::optional<std::string>& cluster,
                                            std::string_view device);
/// The same of any device, a GPU's first; Error that says how to get one where there is none.
HardwareChoice require_hardware(const std::optional<std::string>& cluster);
/// The same with the memory that --device-memory gives a device.
HardwareChoice require_hardware(const std::optional<std::string>& cluster,
                                const std::optional<std::string>& device_memory);

}  // namespace shardscope
