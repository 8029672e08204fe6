#include "backend/cuda/event_timeline.h"

#include <cmath>
#include <vector>

#include "backend/cuda/check.h"

namespace shardscope::cuda {
namespace {

EventHandle make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return EventHandle(event);
}

class EventTimeline final : public DeviceTimeline {
 public:
  EventTimeline(std::size_t places, const CudaStreams& streams) : streams_(streams) {
    for (std::size_t i = 0; i < places; ++i) events_.push_back(make_event());
  }

  void mark(std::size_t place) override {
    check(cudaEventRecord(events_[place].get(), streams_.selected()), "cudaEventRecord");
  }
  Duration between(std::size_t from, std::size_t to) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[from].get(), events_[to].get()),
          "cudaEventElapsedTime");
    return {std::llround(static_cast<double>(milliseconds) * 1e6)};
  }

 private:
  std::vector<EventHandle> events_;
  const CudaStreams& streams_;
};

}  // namespace

std::unique_ptr<DeviceTimeline> make_event_timeline(std::size_t places,
                                                    const CudaStreams& streams) {
  return std::make_unique<EventTimeline>(places, streams);
}

}  // namespace shardscope::cuda
