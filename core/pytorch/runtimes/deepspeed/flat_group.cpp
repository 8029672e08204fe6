#include "core/pytorch/runtimes/deepspeed/flat_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::deepspeed {
namespace {

/// All in one tensor: parameters, the padding between them and at the end.
Tensor flattened(const Setup& setup, const ZeroFlatGroup& layout) {
  Session& s = setup.s;
  Tensors parts;
  const auto add_zeros = [&](std::int64_t elements, const Tensor& as) {
    if (elements > 0) parts.push_back(zeros(s, {elements}, like(as)));
  };
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Tensor& p = setup.parameters[static_cast<std::size_t>(layout.parameters[i])].tensor();
    parts.push_back(view(s, contiguous(s, p), {-1}));
    add_zeros(layout.padding[i], p);
  }
  add_zeros(layout.flat_elements - layout.used_elements, parts.front());
  return parts.size() == 1 ? parts.front() : cat(s, parts);
}

}  // namespace

FlatGroup::FlatGroup(const Setup& setup, const ZeroFlatGroup& layout)
    : layout_(layout), rank_(setup.group.rank) {
  Session& s = setup.s;
  const NoGrad no_grad(s);
  const std::int64_t begin = layout_.partition_elements * rank_;
  const std::int64_t end = begin + layout_.partition_elements;
  for (std::size_t i = 0; i < layout_.parameters.size(); ++i) {
    const auto index = static_cast<std::size_t>(layout_.parameters[i]);
    const std::int64_t first = layout_.offsets[i];
    const std::int64_t past = first + setup.parameters[index].tensor().numel();
    const bool here = first < end && past > begin;
    (here ? in_partition_ : not_in_partition_).push_back(index);
    if (here && first < begin) first_offset_ = begin - first;
  }
  flat_ = flattened(setup, layout_);
  point_parameters(setup);
  const bool offloaded = setup.settings.offload_optimizer.device != OffloadDevice::none;
  const Dtype master_dtype = setup.settings.masters_in_precision ? setup.dtype() : Dtype::float32;
  const Tensor copy = clone(s, detach(s, own_partition(s)));
  master_ =
      to(s, copy, {.dtype = master_dtype, .device = offloaded ? Device::cpu : s.settings.device});
  master_.set_requires_grad(true);
}

std::vector<PartitionSlice> FlatGroup::slices_of(std::size_t place) const {
  const std::int64_t first = layout_.offsets[place];
  const std::int64_t size = layout_.partition_elements;
  const bool last = place + 1 == layout_.parameters.size();
  const std::int64_t past =
      last ? layout_.used_elements : layout_.offsets[place + 1] - layout_.padding[place];
  std::vector<PartitionSlice> slices;
  for (std::int64_t at = first; at < past;) {
    const std::int64_t partition = at / size;
    const std::int64_t until = std::min(past, (partition + 1) * size);
    slices.push_back(
        {.partition = static_cast<int>(partition), .offset = at - first, .elements = until - at});
    at = until;
  }
  return slices;
}

Tensor FlatGroup::own_partition(Session& s) const {
  return narrow(s, flat_, 0, layout_.partition_elements * rank_, layout_.partition_elements);
}

void FlatGroup::add_held(std::size_t number, std::vector<HeldTensor>& all) const {
  all.push_back(
      {flat_, MemoryCategory::parameters, fmt::format("optimizer group {}: parameters", number)});
  all.push_back({master_, MemoryCategory::optimizer_states,
                 fmt::format("optimizer group {}: masters", number)});
  if (master_.grad())
    all.push_back({master_.grad(), MemoryCategory::gradients,
                   fmt::format("optimizer group {}: gradients of masters", number)});
}

void FlatGroup::point_parameters(const Setup& setup) const {
  Session& s = setup.s;
  for (std::size_t i = 0; i < layout_.parameters.size(); ++i) {
    const Tensor& p = setup.parameters[static_cast<std::size_t>(layout_.parameters[i])].tensor();
    const Dims sizes = p.sizes();
    p.set_data(view(s, narrow(s, flat_, 0, layout_.offsets[i], sizes.product()), sizes));
  }
}

}  // namespace shardscope::eager::deepspeed
