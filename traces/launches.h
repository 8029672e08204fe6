// Which span of the host launched which span of the device.
#pragma once

#include <cstddef>
#include <vector>

#include "traces/trace.h"

namespace shardscope {

/// Pairs spans by operation and step: the k-th host span launches the k-th device span. A device
/// span's correlation is its index in `Trace::spans` plus one.
class LaunchTable {
 public:
  explicit LaunchTable(const Trace& trace);
  /// 0: the host span launches nothing.
  std::size_t correlation_of_host(std::size_t span) const { return correlation_of_host_[span]; }
  bool has_launch(std::size_t span) const { return has_launch_[span]; }

 private:
  std::vector<std::size_t> correlation_of_host_;
  std::vector<bool> has_launch_;
};

}  // namespace shardscope
