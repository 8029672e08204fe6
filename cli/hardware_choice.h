// Which machine a prediction is about.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/hardware_profile.h"

namespace shardscope {

/// Where `calibrate` leaves this machine's profile unless told otherwise: shardscope/hardware.json
/// in $XDG_CACHE_HOME, or in ~/.cache.
std::filesystem::path calibrated_profile_path();

/// A profile and where it came from.
struct HardwareChoice {
  HardwareProfile profile;
  std::string source;  ///< "--cluster h100_sxm", "calibrated: ~/.cache/shardscope/hardware.json"
};

/// The profile that --cluster names, else this machine's calibrated one, else none.
std::optional<HardwareChoice> find_hardware(const std::optional<std::string>& cluster);
/// The same; Error that says how to get one where there is none.
HardwareChoice require_hardware(const std::optional<std::string>& cluster);

}  // namespace shardscope
