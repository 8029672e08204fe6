#include "core/pytorch/runtimes/training/activation_offloading.h"

#include <set>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t least_bytes = 1024;  // min_offload_size

struct OffloadedTensor {
  Tensor tensor;
  Device device;
};

using Storages = std::set<const StorageImpl*>;

Storages storages_of(const Tensors& parameters) {
  Storages storages;
  for (const Tensor& parameter : parameters) storages.insert(&*parameter.storage());
  return storages;
}

Tensor moved_to(Session& s, const Tensor& tensor, Device device) {
  const NoGrad no_grad(s);
  return to(s, tensor, ToOptions{.device = device, .non_blocking = true});
}

}  // namespace

std::shared_ptr<SavedTensorHooks> activation_offloading_hooks(const Tensors& parameters) {
  auto hooks = std::make_shared<SavedTensorHooks>();
  hooks->pack = [kept = storages_of(parameters)](Session& s,
                                                 const Tensor& tensor) -> std::shared_ptr<void> {
    const Device device = tensor.device();
    const bool stays = device == Device::cpu || tensor.bytes().count < least_bytes ||
                       kept.contains(&*tensor.storage());
    // An output of the node must not hold the node.
    const Tensor detached = tensor.is_leaf() ? tensor : shallow_detach(s, tensor);
    return std::make_shared<OffloadedTensor>(
        OffloadedTensor{stays ? detached : moved_to(s, detached, Device::cpu), device});
  };
  hooks->unpack = [](Session& s, const std::shared_ptr<void>& given) {
    const auto packed = std::static_pointer_cast<OffloadedTensor>(given);
    return moved_to(s, packed->tensor, packed->device);
  };
  return hooks;
}

}  // namespace shardscope::eager
