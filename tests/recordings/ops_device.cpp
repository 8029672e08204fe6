#include "tests/recordings/ops_device.h"

#include <memory>

#include "backend/cpu/cpu_device.h"

namespace shardscope::recordings {

void run_kernel(const Kernel& kernel, std::initializer_list<void*> operands,
                const std::vector<Slice>& slices, StepState state) {
  static const std::unique_ptr<Device> device = make_cpu_device({});
  device->prepare(kernel);
  std::vector<double> workspace(static_cast<std::size_t>(device->workspace(kernel).count) / 8 + 1);
  std::vector<void*> all(operands);
  all.push_back(workspace.data());
  device->run(kernel, {.operands = all, .slices = slices, .state = state});
}

}  // namespace shardscope::recordings
