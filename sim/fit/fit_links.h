// A link's bandwidth and latency from collectives that ran over it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/fit/observations.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

struct TimedCollective {
  ObservedCollective collective;
  Duration time;
  std::size_t calls = 0;
};

struct FittedLink {
  std::string name;  ///< "link" or "network"
  Link was, is;
  std::size_t timings = 0;
};

/// Corrects `profile.link` by the groups that fit into a node, then `profile.network` by the larger
/// ones, so that the squares of the logarithms of predicted over measured are least, by the
/// profile's own cost model
/// (Levenberg-Marquardt on the logarithms, Marquardt 1963). Latency is left as it is where all
/// payloads are within a factor of two of each other.
std::vector<FittedLink> fit_links(HardwareProfile& profile,
                                  const std::vector<TimedCollective>& timed);

}  // namespace shardscope
