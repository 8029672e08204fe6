#include "core/pytorch/runtimes/deepspeed/partitioned_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/parameter_tree.h"

namespace shardscope::eager::deepspeed {

PartitionedOptimizer::PartitionedOptimizer(Setup setup, Module& model, const ProcessGroup& world,
                                           const ProcessGroup* secondary)
    : setup_(std::move(setup)),
      world_(world),
      offload_(setup_, model, world, secondary),
      parameters_(offload_.parameters()),
      reduce_stream_(setup_.side_stream({"reduce_and_partition", Stream::reduce})),
      gradient_partition_(setup_.parameters.size()),
      master_gradient_(setup_.parameters.size()),
      offloaded_norms_(setup_.parameters.size()) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  overflow_tracker_ = zeros(s, {1}, {.dtype = Dtype::boolean, .device = state_device()});
  barrier(s, world_);
  make_sub_groups();
  barrier(s, world_);
  initialize_states();
  barrier(s, world_);
  if (setup_.settings.contiguous_gradients)
    bucket_buffer_ = empty(s, {setup_.settings.reduce_bucket_elements},
                           {.dtype = setup_.communication_dtype(), .device = s.settings.device});
  std::int64_t elements = 0;
  for (const SubGroup& group : sub_groups_) elements += group.flat.numel();
  partitions_ =
      zeros(s, {elements}, {.dtype = setup_.accumulation_dtype(), .device = state_device()});
  std::int64_t at = 0;
  for (const SubGroup& group : sub_groups_)
    for (const std::size_t p : group.parameters) {
      gradient_partition_[p] = narrow(s, partitions_, 0, at, parameters_[p].partition_elements);
      at += parameters_[p].partition_elements;
    }
  register_gradient_hooks();
}

/// initialize_optimizer_states: gradients of zeros, dropped again unless they are offloaded.
void PartitionedOptimizer::initialize_states() {
  Session& s = setup_.s;
  std::int64_t largest = 0;
  for (const SubGroup& group : sub_groups_) largest = std::max(largest, group.flat.numel());
  const Like kind{.dtype = sub_groups_.front().master.dtype(), .device = state_device()};
  const Tensor shared = zeros(s, {largest}, kind);
  if (!offloads()) return;
  for (SubGroup& group : sub_groups_) {
    group.master.set_grad(zeros(s, {group.flat.numel()}, kind));
    std::int64_t at = 0;
    for (const std::size_t p : group.parameters) {
      master_gradient_[p] =
          narrow(s, group.master.grad(), 0, at, parameters_[p].partition_elements);
      at += parameters_[p].partition_elements;
    }
  }
}

/// _create_fp16_partitions_with_defragmentation and _create_fp32_partitions.
void PartitionedOptimizer::make_sub_groups() {
  Session& s = setup_.s;
  std::vector<ParameterIndices> groups;
  for (const ParameterIndices& given : setup_.groups) {
    ParameterIndices current;
    std::int64_t size = 0;
    for (const std::size_t p : given) {
      if (!parameters_[p].parameter.requires_grad()) continue;
      current.push_back(p);
      size += parameters_[p].partition_elements;
      if (size < setup_.settings.sub_group_elements) continue;
      groups.push_back(std::exchange(current, {}));
      size = 0;
    }
    if (!current.empty()) groups.push_back(std::move(current));
  }
  const Tensor whole = defragmented(groups);
  std::int64_t at = 0;
  for (ParameterIndices& group : groups) {
    std::int64_t elements = 0;
    for (const std::size_t p : group) elements += parameters_[p].partition_elements;
    sub_groups_.push_back({.parameters = std::move(group),
                           .flat = narrow(s, whole, 0, at, elements),
                           .master = {},
                           .averaged = {}});
    at += elements;
  }
  point_partitions();
  const Dtype dtype = setup_.settings.masters_in_precision ? setup_.dtype() : Dtype::float32;
  Tensor converted;  // lives until the next one is there
  for (SubGroup& group : sub_groups_) {
    converted = to(s, group.flat, {.dtype = dtype, .device = state_device()});
    group.master = detach(s, clone(s, converted));
    group.master.set_requires_grad(true);
  }
}

/// defragment: partitions leave the device before their common buffer is allocated there.
Tensor PartitionedOptimizer::defragmented(const std::vector<ParameterIndices>& groups) {
  Session& s = setup_.s;
  std::int64_t elements = 0;
  for (const ParameterIndices& group : groups)
    for (const std::size_t p : group) elements += parameters_[p].partition_elements;
  const Like kind = like(parameters_[groups.front().front()].partition);
  const Tensor on_host = empty(s, {elements}, {.dtype = kind.dtype, .device = Device::cpu});
  std::int64_t at = 0;
  for (const ParameterIndices& group : groups)
    for (const std::size_t p : group) {
      Tensor& partition = parameters_[p].partition;
      copy_(s, narrow(s, on_host, 0, at, partition.numel()), partition);
      at += partition.numel();
      partition = empty(s, {0}, kind);
    }
  if (setup_.settings.offload_param.device != OffloadDevice::none) return on_host;
  s.empty_cache();
  return to(s, on_host, {.device = kind.device});
}

/// Partitions are parts of their sub-group's flat tensor.
void PartitionedOptimizer::point_partitions() {
  Session& s = setup_.s;
  for (const SubGroup& group : sub_groups_) {
    std::int64_t at = 0;
    for (const std::size_t p : group.parameters) {
      parameters_[p].partition = narrow(s, group.flat, 0, at, parameters_[p].partition_elements);
      at += parameters_[p].partition_elements;
    }
  }
}

void PartitionedOptimizer::register_gradient_hooks() {
  for (const SubGroup& group : sub_groups_)
    for (const std::size_t p : group.parameters) {
      parameters_.gather_now({p});
      register_post_accumulate_grad_hook(setup_.s, parameters_[p].parameter,
                                         [this, p](Session&, const Tensor&) { gradient_hook(p); });
      parameters_.partition(p);
    }
}

void PartitionedOptimizer::start_forward() {
  if (epilogue_ran_) ++micro_step_;
  epilogue_ran_ = false;
  offload_.start_forward();
}

std::vector<HeldTensor> PartitionedOptimizer::held() const {
  std::vector<HeldTensor> all;
  for (std::size_t i = 0; i < sub_groups_.size(); ++i) {
    const SubGroup& group = sub_groups_[i];
    all.push_back({group.flat, MemoryCategory::parameters, fmt::format("sub-group {}: shards", i)});
    all.push_back(
        {group.master, MemoryCategory::optimizer_states, fmt::format("sub-group {}: masters", i)});
    if (group.master.grad())
      all.push_back({group.master.grad(), MemoryCategory::gradients,
                     fmt::format("sub-group {}: gradients of masters", i)});
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const PartitionedParameter& p = parameters_[i];
    if (p.persistent && p.parameter.numel() > 0)
      all.push_back({p.parameter, MemoryCategory::parameters, p.name + " (persistent)"});
    if (!p.parameter.requires_grad())
      all.push_back({p.partition, MemoryCategory::parameters, p.name + " (shard)"});
  }
  all.push_back({partitions_, MemoryCategory::gradients, "gradient partitions"});
  if (bucket_buffer_)
    all.push_back({bucket_buffer_, MemoryCategory::communication, "reduce bucket"});
  return all;
}

Tensor PartitionedOptimizer::scale(const Tensor& loss) { return mul(setup_.s, loss, 1.0); }

void PartitionedOptimizer::zero_grad() {
  micro_step_ = 0;
  epilogue_ran_ = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].parameter.set_grad({});
}

}  // namespace shardscope::eager::deepspeed
