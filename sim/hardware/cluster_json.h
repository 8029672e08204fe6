// The sections of a hardware profile that describe a cluster: "gpu", "node" and "interconnect".
#pragma once

#include <string>

#include "sim/hardware/hardware_profile.h"
#include "sim/hardware/profile_file.h"

namespace shardscope {

/// Reads the three sections, each where it is there, with where they come from.
void read_cluster(const ProfileFile& file, HardwareProfile& profile);

/// The text that `read_cluster` reads back; empty for a profile without them.
std::string cluster_json(const HardwareProfile& profile);

}  // namespace shardscope
