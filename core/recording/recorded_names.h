// What a recorded schedule has once, however often the log names it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "core/schedule/device_work.h"
#include "core/schedule/schedule.h"

namespace shardscope {

class RecordedNames {
 public:
  /// The schedule must outlive this.
  explicit RecordedNames(Schedule& schedule) : schedule_(schedule) {}

  /// Indices of `Schedule::names`, `shapes`, `works` and `owners`.
  std::uint32_t name(std::string_view name);
  std::uint32_t shapes(const std::string& text);
  std::uint32_t work(const DeviceWork& work);
  OwnerId owner(std::string_view name);

 private:
  Schedule& schedule_;
  std::unordered_map<std::string, std::uint32_t> names_, shapes_;
  std::unordered_map<DeviceWork, std::uint32_t, DeviceWorkHash> works_;
  std::unordered_map<std::string, OwnerId> owners_;
};

}  // namespace shardscope
