#include "backend/device/device_streams.h"

namespace shardscope {
namespace {

class HostStreams final : public DeviceStreams {
 public:
  void select(Stream) override {}
  void make_events(std::size_t) override {}
  void record(std::size_t) override {}
  void wait_for(std::size_t) override {}
  bool has_graphs() const override { return false; }
  void begin_capture() override {}
  Capture end_capture() override { return {.graph = nullptr, .why_not = "the host has none"}; }
};

}  // namespace

DeviceStreams& host_streams() {
  static HostStreams streams;
  return streams;
}

}  // namespace shardscope
