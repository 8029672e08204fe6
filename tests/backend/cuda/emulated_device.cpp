#include "tests/backend/cuda/emulated_device.h"

#include "backend/cuda/cuda_target.h"
#include "backend/cuda/cuda_workspace.h"
#include "backend/cuda/kernels/kernels.h"
#include "tests/backend/cuda/emulated_stream.h"
#include "tests/backend/cuda/fenced_memory.h"

namespace shardscope::test {
namespace {

class EmulatedDevice : public Device {
 public:
  std::string description() const override { return "CUDA kernels, emulated"; }
  Bytes workspace(const Kernel& kernel) const override { return cuda_workspace(kernel, false); }
  Target target() const override { return cuda_target(false); }
  void prepare(const Kernel&) override {}
  void run(const Kernel& kernel, const KernelCall& call) override {
    const OpenFence open;
    stream_.launch(cuda::SetStepState{call.state, step_state()}, {.threads = cuda::warp_size});
    stream_.use(step_state());
    cuda::run_kernel(kernel, call, stream_);
  }
  DeviceMemory& memory() override { return memory_; }

 private:
  StepState* step_state() const { return reinterpret_cast<StepState*>(step_state_->data()); }

  EmulatedStream stream_;
  FencedMemory memory_;
  std::unique_ptr<Arena> step_state_ = memory_.allocate({sizeof(StepState)});
};

}  // namespace

std::unique_ptr<Device> make_emulated_cuda_device() { return std::make_unique<EmulatedDevice>(); }

}  // namespace shardscope::test
