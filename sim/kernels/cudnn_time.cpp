#include "sim/kernels/cudnn_time.h"

#include <algorithm>

#include "core/schedule/convolution_rules.h"
#include "sim/kernels/matmul_time.h"
#include "sim/kernels/memory_time.h"

namespace shardscope {
namespace {

/// Tensors are read and written to have their channels last.
Duration rearranging_time(const ConvolutionShape& shape, const RooflineFigures& device,
                          const DeviceEfficiency& efficiency) {
  if (shape.rearrangements == 0) return {};
  return moving_time(WorkKind::copy, shape.rearranged * 2, device, efficiency) +
         efficiency.memory.latency * (shape.rearrangements - 1);
}

Duration product_time(const DeviceWork& work, Dtype dtype, RooflineFigures device,
                      const DeviceEfficiency& efficiency) {
  const ConvolutionEfficiency& share = efficiency.convolution;
  if (has_few_channels(work.convolution.channels, size_of(work.dtype).count))
    return efficiency.memory.latency +
           work.flops / FlopRate{share.few_channels.flops_per_s * device.multiprocessors};
  device.peak.flops_per_s *=
      share_of(work.convolution.backward ? share.backward : share.forward, work.dtype);
  return computing_time(work.matmul, dtype, device, efficiency, size_of(work.dtype));
}

/// Products over all steps: of a backward those of the input's gradient and of both weights'.
Duration inputs_time(const RecurrentShape& shape, std::int64_t input, Dtype dtype,
                     const RooflineFigures& device, const DeviceEfficiency& efficiency) {
  const std::int64_t tokens = shape.steps * shape.batch, gates = shape.gates * shape.hidden;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return matmul_time({.batch = 1, .m = m, .n = n, .k = k}, dtype, device, efficiency);
  };
  if (!shape.backward) return product(tokens, gates, input);
  return product(tokens, input, gates) + product(gates, input, tokens) +
         product(gates, shape.hidden, tokens);
}

Duration step_time(const RecurrentShape& shape, Dtype dtype, const RooflineFigures& device,
                   const DeviceEfficiency& efficiency) {
  const RecurrentEfficiency& figures = efficiency.recurrent;
  const std::int64_t gates = shape.gates * shape.hidden;
  if (shape.persistent) {
    const Flops flops{2 * shape.batch * gates * shape.hidden};
    return shape.backward ? figures.persistent_backward + flops / figures.persistent_backward_rate
                          : figures.persistent_forward + flops / figures.persistent_forward_rate;
  }
  const MatmulShape product{.batch = 1,
                            .m = shape.batch,
                            .n = shape.backward ? shape.hidden : gates,
                            .k = shape.backward ? gates : shape.hidden};
  return std::max(shape.backward ? figures.backward : figures.forward,
                  matmul_time(product, dtype, device, efficiency) + efficiency.memory.latency);
}

}  // namespace

Duration convolution_time(const DeviceWork& work, Dtype dtype, const RooflineFigures& device,
                          const DeviceEfficiency& efficiency) {
  return rearranging_time(work.convolution, device, efficiency) +
         std::max(moving_time(WorkKind::pointwise, work.bytes, device, efficiency),
                  product_time(work, dtype, device, efficiency));
}

Duration recurrent_time(const DeviceWork& work, Dtype dtype, const RooflineFigures& device,
                        const DeviceEfficiency& efficiency) {
  const RecurrentShape& shape = work.recurrent;
  const std::int64_t upper = shape.layers - shape.directions;
  return inputs_time(shape, shape.input, dtype, device, efficiency) * shape.directions +
         inputs_time(shape, shape.hidden * shape.directions, dtype, device, efficiency) * upper +
         step_time(shape, dtype, device, efficiency) * (shape.layers * shape.steps);
}

}  // namespace shardscope
