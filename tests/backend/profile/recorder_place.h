// The device on which the contract of recorders is tried: of the program that runs it.
#pragma once

#include <memory>
#include <string>

#include "backend/device/device.h"

namespace shardscope::test {

struct RecorderPlace {
  std::unique_ptr<Device> device;  ///< null: there is none here
  std::string why_not;
};

/// A CUDA device that can run `kernel`.
RecorderPlace make_recorder_place(const Kernel& kernel);

}  // namespace shardscope::test
