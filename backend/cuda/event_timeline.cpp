#include "backend/cuda/event_timeline.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "backend/cuda/check.h"

namespace shardscope::cuda {
namespace {

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return Event(event);
}

class EventTimeline final : public DeviceTimeline {
 public:
  EventTimeline(std::size_t places, cudaStream_t stream) : stream_(stream) {
    for (std::size_t i = 0; i < places; ++i) events_.push_back(make_event());
  }

  void mark(std::size_t place) override {
    check(cudaEventRecord(events_[place].get(), stream_), "cudaEventRecord");
  }
  Duration between(std::size_t from, std::size_t to) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[from].get(), events_[to].get()),
          "cudaEventElapsedTime");
    return {std::llround(static_cast<double>(milliseconds) * 1e6)};
  }

 private:
  std::vector<Event> events_;
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<DeviceTimeline> make_event_timeline(std::size_t places, cudaStream_t stream) {
  return std::make_unique<EventTimeline>(places, stream);
}

}  // namespace shardscope::cuda
