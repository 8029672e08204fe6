// A machine whose figures were turned up or down: what if the links were twice as fast.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Factors on a profile's figures; 1: as they are.
struct MachineScales {
  double flop_rate = 1;          ///< of the matrix products, also of attention
  double memory_bandwidth = 1;   ///< of the device
  double memory = 1;             ///< size of a device's
  double link_bandwidth = 1;     ///< among the ranks of a node
  double network_bandwidth = 1;  ///< among nodes
  double latency = 1;            ///< of both
  double host = 1;               ///< time of Python, dispatch and launches
  bool operator==(const MachineScales&) const = default;
};

/// One of the factors, by name, for tables and controls.
struct MachineFigure {
  std::string_view name;
  double MachineScales::*factor;
};
inline constexpr std::array<MachineFigure, 7> machine_figures{
    {{"flop_rate", &MachineScales::flop_rate},
     {"memory_bandwidth", &MachineScales::memory_bandwidth},
     {"memory", &MachineScales::memory},
     {"link_bandwidth", &MachineScales::link_bandwidth},
     {"network_bandwidth", &MachineScales::network_bandwidth},
     {"latency", &MachineScales::latency},
     {"host", &MachineScales::host}}};

/// The profile with every figure that the factors are about. What was measured is scaled by what
/// bounds it: products and attention by the rate, other kernels by the memory's bandwidth; of a
/// collective's samples of one kind and number of ranks the shortest is taken for latency, the rest
/// of each for bytes. A figure that was turned says so in its provenance, as assumed.
HardwareProfile scaled(HardwareProfile profile, const MachineScales& scales);

/// "link_bandwidth x 1.5, memory x 0.5"; "" where all are 1.
std::string text_of(const MachineScales& scales);

}  // namespace shardscope
