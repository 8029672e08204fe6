#include "core/pytorch/runtimes/training/activation_offloading.h"

#include "core/pytorch/engine/copies.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t least_bytes = 1024;  // min_offload_size

struct OffloadedTensor {
  Tensor tensor;
  Device device;
};

bool stays_on_device(const Tensor& tensor) {
  const bool is_parameter = tensor.is_leaf() && tensor.requires_grad();
  return is_parameter || tensor.device() == Device::cpu || tensor.bytes().count < least_bytes;
}

Tensor moved_to(Session& s, const Tensor& tensor, Device device) {
  const NoGrad no_grad(s);
  return to(s, tensor, ToOptions{.device = device, .non_blocking = true});
}

}  // namespace

std::shared_ptr<SavedTensorHooks> activation_offloading_hooks() {
  auto hooks = std::make_shared<SavedTensorHooks>();
  hooks->pack = [](Session& s, const Tensor& tensor) -> std::shared_ptr<void> {
    const Device device = tensor.device();
    if (stays_on_device(tensor)) return std::make_shared<OffloadedTensor>(OffloadedTensor{tensor, device});
    return std::make_shared<OffloadedTensor>(OffloadedTensor{moved_to(s, tensor, Device::cpu), device});
  };
  hooks->unpack = [](Session& s, const std::shared_ptr<void>& given) {
    const auto packed = std::static_pointer_cast<OffloadedTensor>(given);
    return moved_to(s, packed->tensor, packed->device);
  };
  return hooks;
}

}  // namespace shardscope::eager
