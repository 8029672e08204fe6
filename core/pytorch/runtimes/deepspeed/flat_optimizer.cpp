#include "core/pytorch/runtimes/deepspeed/flat_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/deepspeed/parameter_tree.h"

namespace shardscope::eager::deepspeed {
FlatOptimizer::FlatOptimizer(Setup setup)
    : setup_(std::move(setup)),
      places_(setup_.parameters.size()),
      separate_accumulation_(setup_.dtype() != setup_.accumulation_dtype() &&
                             !partitions_gradients()),
      accumulated_(setup_.parameters.size()),
      reduction_stream_(setup_.side_stream({"reduction", Stream::reduce})),
      accumulated_on_host_(setup_.parameters.size()),
      offloaded_norms_(setup_.parameters.size()) {
  const ModuleTree tree = parameter_tree(setup_.parameters);
  for (const ZeroFlatGroup& layout :
       zero_flat_groups(tree, optimizer_groups(setup_.groups), zero_settings(setup_))) {
    const std::size_t group = groups_.size();
    setup_.s.empty_cache();
    groups_.emplace_back(setup_, layout);
    for (std::size_t place = 0; place < layout.parameters.size(); ++place)
      places_[static_cast<std::size_t>(layout.parameters[place])] = {.group = group,
                                                                     .place = place};
    for (const std::size_t index : groups_.back().in_partition())
      places_[index].in_partition = true;
  }
  all_gradients_.resize(groups_.size());
  averaged_gradients_.resize(groups_.size());
  compact_partitions_.resize(groups_.size());
  if (offloads()) {
    std::int64_t largest = 0;
    for (const NamedParameter& p : setup_.parameters)
      largest = std::max(largest, p.tensor().numel());
    accumulation_buffer_ =
        zeros(setup_.s, {largest}, {.dtype = setup_.dtype(), .device = setup_.s.settings.device});
  }
  register_hooks();
  // initialize_optimizer_states: gradients of zeros, dropped again.
  for (const FlatGroup& group : groups_) {
    Tensor gradient = zeros_like(setup_.s, detach(setup_.s, group.master()));
    if (offloads()) group.master().set_grad(gradient);
  }
}

void FlatOptimizer::register_hooks() {
  for (const FlatGroup& group : groups_)
    for (const std::int32_t id : group.layout().parameters) {
      const auto index = static_cast<std::size_t>(id);
      if (parameter(index).requires_grad())
        register_post_accumulate_grad_hook(
            setup_.s, parameter(index),
            [this, index](Session&, const Tensor&) { gradient_hook(index); });
    }
}

bool FlatOptimizer::compact() const {
  return setup_.accumulation_dtype() == Dtype::float32 && setup_.dtype() != Dtype::float32;
}

StreamId FlatOptimizer::reduction_stream() const {
  return setup_.settings.overlap_comm ? reduction_stream_ : setup_.s.stream;
}

const Tensor& FlatOptimizer::gradient_of(std::size_t index) const {
  return separate_accumulation_ ? accumulated_[index] : parameter(index).grad();
}

void FlatOptimizer::clear_gradient(std::size_t index) {
  if (separate_accumulation_)
    accumulated_[index].reset();
  else
    parameter(index).set_grad({});
}

void FlatOptimizer::start_forward() {
  if (epilogue_ran_) std::fill(accumulated_.begin(), accumulated_.end(), Tensor());
  epilogue_ran_ = false;
}

void FlatOptimizer::start_backward() {
  if (setup_.settings.buckets_before_backward) set_up_buckets();
}

void FlatOptimizer::set_up_buckets() {
  if (ready_for_gradients_) return;
  ++micro_step_;
  ready_for_gradients_ = true;
  if (!setup_.settings.contiguous_gradients) return;
  const Dtype dtype = separate_accumulation_ ? setup_.accumulation_dtype() : setup_.dtype();
  bucket_.buffers.clear();
  bucket_.index = 0;
  for (int i = 0; i < (setup_.settings.overlap_comm ? 2 : 1); ++i)
    bucket_.buffers.push_back(empty(setup_.s, {setup_.settings.reduce_bucket_elements},
                                    {.dtype = dtype, .device = setup_.s.settings.device}));
}

void FlatOptimizer::gradient_hook(std::size_t index) {
  const NoGrad no_grad(setup_.s);
  set_up_buckets();
  if (separate_accumulation_ && parameter(index).grad()) {
    const Tensor cast = to(setup_.s, parameter(index).grad(), setup_.accumulation_dtype());
    if (accumulated_[index])
      add_(setup_.s, accumulated_[index], view_as(setup_.s, cast, accumulated_[index]));
    else
      accumulated_[index] = cast;
    parameter(index).set_grad({});
  }
  const bool as_they_come = partitions_gradients() || setup_.settings.overlap_comm;
  if (as_they_come && (partitions_gradients() || at_boundary())) enter(index);
}

void FlatOptimizer::end_backward() {
  const NoGrad no_grad(setup_.s);
  if (partitions_gradients()) return epilogue();
  if (!at_boundary()) return;
  const Visiting visiting = setup_.visiting(Site::reduce_gradients);
  if (!setup_.settings.overlap_comm)
    for (const ParameterIndices& group : setup_.groups)
      for (const std::size_t index : group)
        if (gradient_of(index)) enter(index);
  epilogue();
}

void FlatOptimizer::epilogue() {
  const Visiting visiting = setup_.visiting(Site::gradient_epilogue);
  reduce_bucket();
  if (setup_.settings.overlap_comm) finish_reductions();
  if (!offloads())
    for (std::size_t group = 0; group < groups_.size(); ++group) accumulate_group(group);
  while (!bucket_.buffers.empty()) bucket_.buffers.pop_back();
  bucket_.reuse = {};
  grads_in_partition_.reset();
  partition_fill_ = 0;
  ready_for_gradients_ = false;
  for (const NamedParameter& p : setup_.parameters) p.tensor().set_grad({});
  epilogue_ran_ = true;
}

/// The host waits for the device, all streams of it; then gradients of others' partitions go.
void FlatOptimizer::finish_reductions() {
  setup_.synchronize();
  {
    const OnStream on_stream(setup_.s, reduction_stream_);
    setup_.synchronize();
  }
  for (const std::size_t index : std::exchange(reduced_before_, {})) clear_gradient(index);
}

void FlatOptimizer::accumulate_group(std::size_t group) {
  Session& s = setup_.s;
  if (compact()) {
    if (at_boundary()) compact_partition(group);
    return;
  }
  Tensors fresh;
  for (const std::size_t index : groups_[group].in_partition()) {
    const Tensor& gradient = gradient_of(index);
    fresh.push_back(gradient ? gradient : zeros_like(s, parameter(index)));
  }
  Tensors& all = all_gradients_[group];
  if (all.empty())
    all = std::move(fresh);
  else
    for (std::size_t i = 0; i < all.size(); ++i) add_(s, all[i], fresh[i]);
  if (!at_boundary()) return;
  averaged_gradients_[group] = flat_partition(group);
  all.clear();
}

std::vector<FlatOptimizer::PartitionPart> FlatOptimizer::flat_partition(std::size_t group) {
  Session& s = setup_.s;
  const FlatGroup& flat = groups_[group];
  const std::int64_t size = flat.layout().partition_elements;
  const Like fresh{.dtype = setup_.accumulation_dtype(), .device = s.settings.device};
  std::vector<PartitionPart> parts;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < all_gradients_[group].size(); ++i) {
    const Tensor& gradient = all_gradients_[group][i];
    const auto index = places_[flat.in_partition()[i]];
    const std::int64_t start = start_in_partition(group, index.place);
    if (start > at) parts.push_back({zeros(s, {start - at}, fresh), true});
    const std::int64_t offset = i == 0 ? flat.first_offset() : 0;
    const std::int64_t elements = std::min(gradient.numel() - offset, size - start);
    const bool whole = offset == 0 && elements == gradient.numel();
    parts.push_back({whole
                         ? gradient
                         : narrow(s, view(s, contiguous(s, gradient), {-1}), 0, offset, elements)});
    at = start + elements;
  }
  if (at < size) parts.push_back({zeros(s, {size - at}, fresh), true});
  return parts;
}

/// Each parameter's part of the averaged gradients, without padding.
Tensors FlatOptimizer::gradients_in_partition(std::size_t group) const {
  Tensors gradients;
  for (const PartitionPart& part : averaged_gradients_[group])
    if (!part.is_padding) gradients.push_back(part.tensor);
  return gradients;
}

/// _get_compact_grad_partition_buffer: this rank's float32 sums, made at first use.
const Tensor& FlatOptimizer::compact_partition(std::size_t group) {
  Tensor& sums = compact_partitions_[group];
  if (sums) return sums;
  Session& s = setup_.s;
  const FlatGroup& flat = groups_[group];
  const std::int64_t size = flat.layout().partition_elements;
  sums = zeros(s, {size}, {.dtype = Dtype::float32, .device = s.settings.device});
  std::vector<PartitionPart>& parts = averaged_gradients_[group];
  std::int64_t at = 0;
  for (const std::size_t index : flat.in_partition()) {
    const std::int64_t start = start_in_partition(group, places_[index].place);
    const std::int64_t elements = own_slice(index).elements;
    if (start > at) parts.push_back({narrow(s, sums, 0, at, start - at), true});
    if (elements > 0) parts.push_back({narrow(s, sums, 0, start, elements)});
    at = start + elements;
  }
  if (at < size) parts.push_back({narrow(s, sums, 0, at, size - at), true});
  return sums;
}

/// Where a parameter's part begins in this rank's partition.
std::int64_t FlatOptimizer::start_in_partition(std::size_t group, std::size_t place) const {
  const ZeroFlatGroup& layout = groups_[group].layout();
  return std::max<std::int64_t>(
      0, layout.offsets[place] - layout.partition_elements * setup_.group.rank);
}

std::vector<HeldTensor> FlatOptimizer::held() const {
  std::vector<HeldTensor> all;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].add_held(i, all);
    for (const PartitionPart& part : averaged_gradients_[i])
      all.push_back({part.tensor, MemoryCategory::gradients,
                     fmt::format("optimizer group {}: averaged gradients", i)});
    for (const Tensor& gradient : all_gradients_[i])
      all.push_back({gradient, MemoryCategory::gradients,
                     fmt::format("optimizer group {}: accumulated gradients", i)});
  }
  for (const Tensor& buffer : bucket_.buffers)
    all.push_back({buffer, MemoryCategory::communication, "reduce bucket"});
  for (std::size_t i = 0; i < accumulated_.size(); ++i)
    if (accumulated_[i])
      all.push_back(
          {accumulated_[i], MemoryCategory::gradients, setup_.parameters[i].name + ".grad_accum"});
  if (grads_in_partition_)
    all.push_back({grads_in_partition_, MemoryCategory::gradients, "gradients in partition"});
  if (accumulation_buffer_)
    all.push_back({accumulation_buffer_, MemoryCategory::communication, "offload buffer"});
  return all;
}

Tensor FlatOptimizer::scale(const Tensor& loss) { return mul(setup_.s, loss, 1.0); }

void FlatOptimizer::zero_grad() {
  for (const NamedParameter& p : setup_.parameters) p.tensor().set_grad({});
  std::fill(accumulated_.begin(), accumulated_.end(), Tensor());
}

}  // namespace shardscope::eager::deepspeed
