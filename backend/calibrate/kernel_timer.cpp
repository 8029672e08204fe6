#include "backend/calibrate/kernel_timer.h"

#include <algorithm>
#include <vector>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"

namespace shardscope {
namespace {

Duration time_once(Device& device, const Kernel& kernel, const KernelCall& call) {
  const Duration start = monotonic_now();
  device.run(kernel, call);
  return monotonic_now() - start;
}

}  // namespace

KernelSample time_kernel(Communicator& world, Device& device, const Kernel& kernel,
                         Duration budget) {
  device.prepare(kernel);
  const KernelOperands operands(kernel, device);
  const KernelCall call = operands.call();
  world.barrier();
  const Duration warm = mean_over_ranks(world, time_once(device, kernel, call));
  const std::int64_t fits = budget.ns / std::max<std::int64_t>(warm.ns, 1);
  std::vector<Duration> times(static_cast<std::size_t>(std::clamp<std::int64_t>(fits, 3, 25)));
  for (Duration& time : times) time = time_once(device, kernel, call);
  return {kernel, std::max(mean_over_ranks(world, median(times)), Duration{1})};
}

}  // namespace shardscope
