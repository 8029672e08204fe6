#include "backend/cuda/cuda_device.h"
#include "tests/backend/profile/recorder_place.h"

namespace shardscope::test {

RecorderPlace make_recorder_place(const Kernel&) {
  std::string why_not = why_no_cuda_device();
  if (!why_not.empty())
    return {.device = nullptr, .why_not = "no GPU can be used here: " + why_not};
  return {.device = make_cuda_device(), .why_not = {}};
}

}  // namespace shardscope::test
