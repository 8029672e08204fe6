#include "backend/device/device_timeline.h"

#include <chrono>
#include <vector>

namespace shardscope {
namespace {

class HostTimeline final : public DeviceTimeline {
 public:
  explicit HostTimeline(std::size_t places) : moments_(places) {}

  void mark(std::size_t place) override { moments_[place] = Clock::now(); }
  Duration between(std::size_t from, std::size_t to) const override {
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(moments_[to] - moments_[from])
                .count()};
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> moments_;
};

}  // namespace

std::unique_ptr<DeviceTimeline> make_host_timeline(std::size_t places) {
  return std::make_unique<HostTimeline>(places);
}

}  // namespace shardscope
