#include "backend/profile/device_instrument.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "backend/profile/recording_trace.h"

namespace shardscope {
namespace {

class DeviceInstrument final : public Instrument {
 public:
  DeviceInstrument(const Schedule& schedule, std::unique_ptr<DeviceRecorder> recorder)
      : schedule_(schedule), recorder_(std::move(recorder)) {}

  Probe* probe() override { return &recorder_->probe(); }
  void start() override { why_not_ = recorder_->start(); }
  void stop() override {
    if (why_not_.empty()) recording_ = recorder_->stop();
  }
  bool times_replays() const override { return why_not_.empty(); }

  void add_to(Trace& trace, const MeasuredWindow& window) override {
    if (why_not_.empty()) {
      add_recording(trace, schedule_, recording_, window);
      recording_ = {};  // it may be large
      return;
    }
    trace.recording.notes.push_back(
        fmt::format("no records of the device's kernels, copies and memory: {}; operations are "
                    "timed by marks on its streams",
                    why_not_));
  }

 private:
  const Schedule& schedule_;
  std::unique_ptr<DeviceRecorder> recorder_;
  std::string why_not_ = "not started";
  DeviceRecording recording_;
};

}  // namespace

std::unique_ptr<Instrument> make_device_instrument(const Schedule& schedule,
                                                   std::unique_ptr<DeviceRecorder> recorder) {
  return std::make_unique<DeviceInstrument>(schedule, std::move(recorder));
}

}  // namespace shardscope
