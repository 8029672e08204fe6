// When something really ran on a device, by the device's own clock.
#pragma once

#include <cstddef>
#include <memory>

#include "core/base/quantities.h"

namespace shardscope {

/// Moments in places that are taken when it is made, so that marking takes nothing more.
class DeviceTimeline {
 public:
  virtual ~DeviceTimeline() = default;

  /// Notes in `place` when all that was queued before has ended; a place may be marked again.
  virtual void mark(std::size_t place) = 0;
  /// From the moment in `from` to that in `to`. Both were marked and have ended: the device was
  /// waited for since.
  virtual Duration between(std::size_t from, std::size_t to) const = 0;
};

/// Of work that has ended when the call returns: the host's clock.
std::unique_ptr<DeviceTimeline> make_host_timeline(std::size_t places);

}  // namespace shardscope
