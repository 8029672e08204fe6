// Stage 3: gradients are reduced bucket by bucket and kept as partitions; the optimizer's step.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/norms.h"
#include "core/pytorch/runtimes/deepspeed/partitioned_optimizer.h"

namespace shardscope::eager::deepspeed {
namespace {

constexpr std::size_t max_reduce_events = 2;

std::int64_t divided_up(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

/// As Python lets go of a list.
void release_from_the_end(Tensors& tensors) {
  while (!tensors.empty()) tensors.pop_back();
}

/// Ranks at which the parts of a gradient begin to be others: whole, what is left, nothing.
std::set<std::int64_t> turns_of(const Tensors& gradients, std::int64_t ranks) {
  std::set<std::int64_t> turns{0, ranks};
  for (const Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const std::int64_t chunk = divided_up(gradient.numel(), ranks);
    turns.insert(gradient.numel() / chunk);
    turns.insert(divided_up(gradient.numel(), chunk));
  }
  return turns;
}

/// For each rank its part of every gradient, filled up where there is less of it. Made once for
/// ranks whose parts are alike.
std::vector<Stretch> parts_by_rank(Session& s, const Tensors& gradients, std::int64_t ranks) {
  std::vector<Stretch> list;
  const std::set<std::int64_t> turns = turns_of(gradients, ranks);
  for (auto turn = turns.begin(); *turn < ranks; ++turn) {
    Stretch alike{.tensors = {}, .times = static_cast<std::uint32_t>(*std::next(turn) - *turn)};
    s.repeat(alike.times, [&] {
      for (const Tensor& gradient : gradients) {
        const std::int64_t chunk = divided_up(gradient.numel(), ranks);
        const std::int64_t start = std::min(*turn * chunk, gradient.numel());
        const std::int64_t elements = std::min(chunk, gradient.numel() - start);
        alike.tensors.push_back(narrow(s, gradient, 0, start, elements));
        if (elements < chunk) alike.tensors.push_back(empty(s, {chunk - elements}, like(gradient)));
      }
    });
    list.push_back(std::move(alike));
  }
  return list;
}

}  // namespace

void PartitionedOptimizer::gradient_hook(std::size_t index) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  for (Watcher* watcher : setup_.watchers) watcher->on_gradient(s, index);
  const Visiting visiting = setup_.visiting(Site::gradient_hook);
  const std::int64_t elements = parameters_[index].elements;
  if (bucket_elements_ + elements > setup_.settings.reduce_bucket_elements && bucket_elements_ > 0)
    reduce_and_partition();
  add_to_bucket(index);
}

void PartitionedOptimizer::add_to_bucket(std::size_t index) {
  Session& s = setup_.s;
  setup_.wait_stream(reduce_stream_, s.stream);
  const Tensor gradient = parameters_[index].parameter.grad();
  const std::int64_t elements = gradient.numel();
  if (bucket_buffer_ && bucket_elements_ + elements <= setup_.settings.reduce_bucket_elements) {
    const OnStream on_stream(s, reduce_stream_);
    const Tensor target =
        view_as(s, narrow(s, bucket_buffer_, 0, bucket_elements_, elements), gradient);
    copy_(s, target, gradient, true);
    setup_.record_stream(gradient, reduce_stream_);
    gradient.set_data(target);
  }
  bucket_.push_back(index);
  bucket_elements_ += elements;
}

void PartitionedOptimizer::reduce_and_partition() {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::reduce_and_partition);
  if (bucket_.empty()) return;
  if (reduce_events_.size() > max_reduce_events) {
    s.host_wait(reduce_events_.front());
    reduce_events_.pop_front();
  }
  const OnStream on_stream(s, reduce_stream_);
  const bool contiguous = setup_.settings.contiguous_gradients &&
                          bucket_elements_ <= setup_.settings.reduce_bucket_elements;
  Tensors partitions;
  if (contiguous && !setup_.settings.reduce_scatter) {
    partitions = all_reduced();
  } else {
    std::sort(bucket_.begin(), bucket_.end());
    partitions = scattered(bucket_);
  }
  keep_partitions(bucket_, partitions);
  release_from_the_end(partitions);
  bucket_.clear();
  bucket_elements_ = 0;
  if (setup_.has_streams()) reduce_events_.push_back(s.record_event(reduce_stream_));
}

/// __avg_scatter_grads with reduce_scatter_coalesced.
Tensors PartitionedOptimizer::scattered(const ParameterIndices& parameters) {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::avg_scatter_grads);
  const std::int64_t ranks = world_.size();
  Tensors gradients;
  for (const std::size_t p : parameters) {
    const Tensor& gradient = parameters_[p].parameter.grad();
    gradients.push_back(setup_.communication_dtype() != setup_.dtype()
                            ? to(s, gradient, setup_.communication_dtype())
                            : gradient);
  }
  Tensors flat;
  for (const Tensor& gradient : gradients) flat.push_back(view(s, gradient, {-1}));
  std::int64_t part_elements = 0;
  for (const Tensor& gradient : flat) part_elements += divided_up(gradient.numel(), ranks);
  Tensor buffer;
  if (flat.size() == 1 && flat.front().numel() % ranks == 0) {
    buffer = view(s, gradients.front(), {-1});
  } else {
    buffer = cat(s, parts_by_rank(s, flat, ranks));
  }
  div_(s, buffer, static_cast<double>(ranks));
  const Tensor own = narrow(s, buffer, 0, part_elements * world_.rank, part_elements);
  reduce_scatter_single(s, world_, own, buffer, "SUM");
  Tensors partitions;
  std::int64_t at = 0;
  for (const Tensor& gradient : flat) {
    const std::int64_t chunk = divided_up(gradient.numel(), ranks);
    const std::int64_t start = std::min(world_.rank * chunk, gradient.numel());
    Tensor part = narrow(s, own, 0, at, std::min(chunk, gradient.numel() - start));
    partitions.push_back(setup_.communication_dtype() != setup_.accumulation_dtype()
                             ? to(s, part, setup_.accumulation_dtype())
                             : part);
    at += chunk;
  }
  flat.clear();
  release_from_the_end(gradients);
  return partitions;
}

/// __avg_scatter_contiguous_grads: reduce_scatter is off.
Tensors PartitionedOptimizer::all_reduced() {
  Session& s = setup_.s;
  Tensor buffer = narrow(s, bucket_buffer_, 0, 0, bucket_elements_);
  div_(s, buffer, static_cast<double>(world_.size()));
  all_reduce(s, world_, buffer, "SUM");
  // The factor is 1; multiplying by it makes another tensor all the same.
  buffer = mul(s, buffer, 1.0);
  if (setup_.communication_dtype() != setup_.accumulation_dtype())
    buffer = to(s, buffer, setup_.accumulation_dtype());
  Tensors partitions;
  std::int64_t at = 0;
  for (const std::size_t p : bucket_) {
    const std::int64_t elements = parameters_[p].elements;
    const std::int64_t chunk = divided_up(elements, world_.size());
    const std::int64_t start = std::min(world_.rank * chunk, elements);
    const std::int64_t real = std::min(chunk, elements - start);
    Tensor part = narrow(s, buffer, 0, at + start, real);
    if (real != parameters_[p].partition_elements) {
      const Tensor padded = zeros(s, {parameters_[p].partition_elements}, like(buffer));
      if (real > 0) copy_(s, narrow(s, padded, 0, 0, real), part);
      part = padded;
    }
    partitions.push_back(part);
    at += elements;
  }
  return partitions;
}

/// partition_grads.
void PartitionedOptimizer::keep_partitions(const ParameterIndices& parameters,
                                           const Tensors& partitions) {
  Session& s = setup_.s;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    PartitionedParameter& p = parameters_[parameters[i]];
    const bool has_data = p.partition_elements * world_.rank < p.elements;
    if (has_data) {
      const Tensor kept =
          narrow(s, gradient_partition_[parameters[i]], 0, 0, partitions[i].numel());
      const ToOptions to_device{.device = s.settings.device, .non_blocking = true};
      Tensor on_device;  // kept beside the host's copy, for what follows
      if (micro_step_ == 0) {
        copy_(s, kept, partitions[i], true);
        on_device = to(s, kept, to_device);
      } else if (!offloads()) {
        add_(s, kept, view_as(s, to(s, partitions[i], setup_.accumulation_dtype()), kept));
      } else {
        on_device = to(s, kept, to_device);
        add_(s, on_device, to(s, partitions[i], setup_.accumulation_dtype()));
        copy_(s, kept, on_device, true);
      }
      if (offloads() && at_boundary()) offload(parameters[i], on_device);
      setup_.record_stream(p.parameter.grad(), s.stream);
    }
    p.parameter.set_grad({});
  }
}

/// _offload_grad_partition_at_boundary.
void PartitionedOptimizer::offload(std::size_t index, const Tensor& gradient) {
  Session& s = setup_.s;
  const Tensor square = pow(s, vector_norm(s, to(s, gradient, norm_dtype)), 2.0);
  offloaded_norms_[index] = pow(s, square, 0.5);
  const Tensor& target = master_gradient_[index];
  copy_(s, narrow(s, target, 0, 0, gradient.numel()), to(s, gradient, target.dtype()), true);
}

void PartitionedOptimizer::end_backward() {
  const NoGrad no_grad(setup_.s);
  epilogue();
  offload_.coordinator().release_leftovers();
}

void PartitionedOptimizer::epilogue() {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::gradient_epilogue);
  reduce_and_partition();
  if (setup_.has_streams()) s.host_wait(s.record_event(reduce_stream_));
  if (!offloads())
    for (SubGroup& group : sub_groups_) {
      group.averaged.clear();
      for (const std::size_t p : group.parameters) group.averaged.push_back(gradient_partition_[p]);
    }
  epilogue_ran_ = true;
}

void PartitionedOptimizer::step() {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  micro_step_ = 0;
  epilogue_ran_ = false;
  bucket_.clear();
  bucket_elements_ = 0;
  offload_.coordinator().release_all();
  if (setup_.dtype() == Dtype::float16) check_overflow();
  Tensors norms;
  for (const SubGroup& group : sub_groups_) norms.push_back(grad_norm(group));
  const Tensor norm = combined_norm(s, norms);
  check_norm(s, norm);
  keep_norm(div(s, norm, 1.0));
  if (!offloads()) zero_grad();
  for (SubGroup& group : sub_groups_) step_sub_group(group, norm);
  const Visiting visiting = setup_.visiting(Site::post_step);
  std::fill(offloaded_norms_.begin(), offloaded_norms_.end(), Tensor());
  if (!offload_.persistent().empty()) parameters_.gather_now(offload_.persistent());
  parameters_.drop_secondary();
}

void PartitionedOptimizer::partition(const ParameterIndices& parameters) {
  for (const std::size_t p : parameters) parameters_.partition(p);
}

void PartitionedOptimizer::start_saving() {
  offload_.coordinator().release_all();
  partition(offload_.persistent());
}

void PartitionedOptimizer::end_saving() {
  parameters_.drop_secondary();
  if (!offload_.persistent().empty()) parameters_.gather_now(offload_.persistent());
}

void PartitionedOptimizer::check_overflow() {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::has_overflow);
  Tensor overflow;
  {
    static constexpr Operator either{"aten.logical_or_.default", OperatorKind::pointwise};
    const OnStream on_stream(s, reduce_stream_);
    const auto note = [&](const Tensor& found) {
      dispatched(s, either, {&overflow_tracker_, &found}, {&overflow_tracker_});
    };
    note(any(s, isinf(s, partitions_)));
    note(any(s, compare(s, Comparison::ne, partitions_, partitions_)));  // torch.isnan
    overflow = to(s, clone(s, overflow_tracker_), {.device = s.settings.device});
    overflow = to(s, overflow, Dtype::uint8);
    zero_(s, overflow_tracker_);
  }
  setup_.wait_stream(s.stream, reduce_stream_);
  all_reduce(s, setup_.group, overflow, "MAX");
  item(s, overflow);
}

/// complete_grad_norm_calculation_for_cpu_offload: the sum goes over the host.
Tensor PartitionedOptimizer::offloaded_norm(const SubGroup& group) {
  Session& s = setup_.s;
  Tensor sum_of_squares;
  for (const std::size_t p : group.parameters) {
    if (!offloaded_norms_[p]) continue;
    const Tensor square = pow(s, offloaded_norms_[p], 2.0);
    if (sum_of_squares)
      add_(s, sum_of_squares, square);
    else
      sum_of_squares = add(s, square, 0.0);
  }
  if (sum_of_squares) item(s, sum_of_squares);
  const Tensor total = tensor(s, {1}, {.dtype = Dtype::float32, .device = s.settings.device});
  all_reduce(s, world_, total, "SUM");
  const Tensor root = pow(s, select(s, total, 0, 0), 0.5);
  mask_invalid(s, root);
  return to(s, root, {.device = Device::cpu});
}

/// get_grad_norm_direct.
Tensor PartitionedOptimizer::grad_norm(const SubGroup& group) {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::grad_norm);
  if (offloads()) return offloaded_norm(group);
  Tensors norms;
  for (const Tensor& gradient : group.averaged)
    norms.push_back(vector_norm(s, to(s, gradient, norm_dtype)));
  const Tensor total = sum(s, pow(s, stack(s, norms), 2.0));
  all_reduce(s, world_, total, "SUM");
  const Tensor root = pow(s, total, 0.5);
  const Tensor infinite = isinf(s, root);
  const Tensor invalid = bitwise_or(s, compare(s, Comparison::ne, root, root), infinite);
  const Tensor error = tensor(s, {}, {.dtype = Dtype::float32, .device = state_device()});
  return where(s, invalid, error, root);
}

void PartitionedOptimizer::step_sub_group(SubGroup& group, const Tensor& norm) {
  Session& s = setup_.s;
  if (!offloads()) {
    Tensors flat;
    for (const Tensor& gradient : group.averaged) flat.push_back(view(s, gradient, {-1}));
    const Tensor whole = flat.size() == 1 ? flat.front() : cat(s, flat);
    group.master.set_grad(to(s, whole, group.master.dtype()));
    for (const Tensor& gradient : group.averaged) setup_.record_stream(gradient, s.stream);
    group.averaged.clear();
  }
  if (setup_.settings.gradient_clipping > 0)
    mul_(s, group.master.grad(), to(s, clip_factor(s, norm), {.device = state_device()}));
  else
    mul_(s, group.master.grad(), 1.0);
  setup_.optimizer.step(s, group.master);
  copy_(s, group.flat, detach(s, group.master));
  point_partitions();
  if (!offloads()) group.master.set_grad({});
}

}  // namespace shardscope::eager::deepspeed
