// How a library moved a collective.
#pragma once

#include <string>

namespace shardscope {

/// How the library moved a collective, in its own words; empty where it does not say.
struct CollectiveChoice {
  std::string algorithm;  ///< "RING", "TREE", "NVLS"
  std::string protocol;   ///< "LL", "LL128", "SIMPLE"
  int channels = 0;
  bool operator==(const CollectiveChoice&) const = default;
};

}  // namespace shardscope
