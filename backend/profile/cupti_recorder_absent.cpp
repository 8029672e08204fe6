#include "backend/profile/cupti_recorder.h"

namespace shardscope {
namespace {

class NoRecorder final : public DeviceRecorder {
 public:
  Probe& probe() override { return probe_; }
  std::string start() override { return "this program was built without CUPTI"; }
  DeviceRecording stop() override { return {}; }

 private:
  Probe probe_;
};

}  // namespace

std::unique_ptr<DeviceRecorder> make_cupti_recorder(const CuptiOptions&) {
  return std::make_unique<NoRecorder>();
}

}  // namespace shardscope
