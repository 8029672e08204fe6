// Which event of a host's thread encloses which.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

constexpr std::uint32_t no_event = UINT32_MAX;

/// The innermost span around each span of a thread, and the call that launched each activity of a
/// device. Refers to the trace it was made of.
class HostTree {
 public:
  explicit HostTree(const ImportedTrace& trace);

  /// The span of the same thread around it; `no_event` of the outermost and of what is on no
  /// thread.
  std::uint32_t around(std::uint32_t event) const { return around_[event]; }
  /// Of a device's activity the host's call that launched it, if it is in the trace; of others the
  /// event itself.
  std::uint32_t on_host(std::uint32_t event) const;

 private:
  const ImportedTrace* trace_;
  std::vector<std::uint32_t> around_;
  std::unordered_map<std::uint32_t, std::uint32_t> launch_of_;  ///< by correlation
};

}  // namespace shardscope
