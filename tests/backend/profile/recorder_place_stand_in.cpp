#include "backend/cuda/cuda_device.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"
#include "tests/backend/profile/recorder_place.h"

namespace shardscope::test {

RecorderPlace make_recorder_place(const Kernel& kernel) {
  StandInDevice::get().forget_calls();
  teach_step_state();
  teach(kernel);
  return {.device = make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own}),
          .why_not = {}};
}

}  // namespace shardscope::test
