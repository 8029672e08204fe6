// How gradients of stages 1 and 2 travel: into a bucket, over the ranks, into the partition.
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/flat_optimizer.h"

namespace shardscope::eager::deepspeed {
namespace {

/// torch._utils._flatten_dense_tensors.
Tensor flatten_dense(Session& s, const std::vector<Stretch>& list) {
  std::vector<Stretch> flat;
  for (const Stretch& stretch : list)
    s.repeat(stretch.times, [&] {
      Stretch alike{.tensors = {}, .times = stretch.times};
      for (const Tensor& tensor : stretch.tensors)
        alike.tensors.push_back(view(s, contiguous(s, tensor), {-1}));
      flat.push_back(std::move(alike));
    });
  const Stretch& first = flat.front();
  const bool is_one = flat.size() == 1 && first.times == 1 && first.tensors.size() == 1;
  return is_one ? first.tensors.front() : cat(s, std::move(flat));
}

/// torch._utils._unflatten_dense_tensors.
Tensors unflatten_dense(Session& s, const Tensor& flat, const std::vector<Stretch>& as) {
  Tensors parts;
  std::int64_t at = 0;
  for (const Stretch& stretch : as)
    s.repeat(stretch.times, [&] {
      for (const Tensor& tensor : stretch.tensors) {
        parts.push_back(view_as(s, narrow(s, flat, 0, at, tensor.numel()), tensor));
        at += tensor.numel() * stretch.times;
      }
    });
  return parts;
}

}  // namespace

void FlatOptimizer::enter(std::size_t index) {
  const Visiting visiting = setup_.visiting(Site::gradient_hook);
  const std::int64_t elements = parameter(index).numel();
  for (Watcher* watcher : setup_.watchers) watcher->on_gradient(setup_.s, index);
  if (elements == 0) return;
  const Tensor gradient = gradient_of(index);
  const bool contiguous = setup_.settings.contiguous_gradients;
  if (bucket_.elements + elements > setup_.settings.reduce_bucket_elements) {
    reduce_bucket();
    if (contiguous && setup_.settings.overlap_comm) bucket_.index = 1 - bucket_.index;
  }
  if (contiguous) copy_into_bucket(index, gradient);
  bucket_.ready = protecting_event();
  bucket_.elements += elements;
  bucket_.gradients.push_back(gradient);
  bucket_.parameters.push_back(index);
}

void FlatOptimizer::copy_into_bucket(std::size_t index, const Tensor& gradient) {
  Session& s = setup_.s;
  protect(gradient);
  if (gradient.numel() > setup_.settings.reduce_bucket_elements) {
    if (offloads()) gradient.set_data(clone_contiguous(s, detach(s, gradient)));
    bucket_.oversized = index;
    return;
  }
  if (const auto& reuse = bucket_.reuse[bucket_.index]) s.wait_event(s.stream, *reuse);
  const Tensor target =
      narrow(s, bucket_.buffers[bucket_.index], 0, bucket_.elements, gradient.numel());
  copy_(s, target, view(s, gradient, {-1}));
  gradient.set_data(view_as(s, target, gradient));
}

void FlatOptimizer::reduce_bucket() {
  const Visiting visiting = setup_.visiting(Site::reduce_ipg_grads);
  if (setup_.settings.contiguous_gradients)
    reduce_contiguous();
  else
    reduce_scattered_grads();
  finish_bucket();
}

void FlatOptimizer::reduce_contiguous() {
  Session& s = setup_.s;
  if (!bucket_.oversized)
    return average(narrow(s, bucket_.buffers[bucket_.index], 0, 0, bucket_.elements));
  const Tensor gradient = gradient_of(*bucket_.oversized);
  const Tensor flat = view(s, gradient, {-1});
  gradient.set_data(view_as(s, flat, gradient));
  average(flat);
  bucket_.oversized.reset();
}

/// Without a bucket's buffer: gradients are flattened for the reduction and copied back.
void FlatOptimizer::reduce_scattered_grads() {
  if (bucket_.gradients.empty()) return;
  Session& s = setup_.s;
  if (setup_.settings.overlap_comm) finish_reductions();
  const OnStream on_stream(s, reduction_stream());
  const std::vector<Stretch> gradients{{.tensors = bucket_.gradients}};
  const Tensor flat = reduced(gradients, std::nullopt, true);
  if (setup_.settings.overlap_comm) setup_.record_stream(flat, s.stream);
  const Tensors parts = unflatten_dense(s, flat, gradients);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    copy_(s, bucket_.gradients[i], parts[i]);
    if (setup_.settings.overlap_comm) setup_.record_stream(bucket_.gradients[i], s.stream);
  }
}

void FlatOptimizer::average(const Tensor& tensor) {
  Session& s = setup_.s;
  const Visiting visiting = setup_.visiting(Site::average_tensor);
  if (offloads() && bucket_.ready) s.wait_event(reduction_stream(), *bucket_.ready);
  if (setup_.settings.overlap_comm) {
    if (!offloads()) setup_.wait_stream(reduction_stream_, s.stream);
    setup_.wait_stream(s.stream, reduction_stream_);
  }
  const OnStream on_stream(s, reduction_stream());
  protect(tensor);
  if (!setup_.settings.reduce_scatter) return all_reduce_whole(tensor);
  const std::vector<OwnedPart> parts = owned_parts();
  div_(s, tensor, static_cast<double>(setup_.group.size()));
  reduce_parts(tensor, parts);
}

void FlatOptimizer::all_reduce_whole(const Tensor& tensor) {
  if (tensor.numel() == 0) return;
  Session& s = setup_.s;
  const Dtype wire = setup_.communication_dtype();
  const Tensor sent = to(s, tensor, wire);
  all_reduce(s, setup_.group, sent, "SUM");
  mul_(s, sent, 1.0 / setup_.group.size());
  if (wire != tensor.dtype()) copy_(s, tensor, sent);
}

std::vector<FlatOptimizer::OwnedPart> FlatOptimizer::owned_parts() {
  std::vector<OwnedPart> parts;
  std::int64_t at = 0;
  for (const std::size_t index : bucket_.parameters) {
    const Place& place = places_[index];
    for (const PartitionSlice& slice : groups_[place.group].slices_of(place.place)) {
      Tensor output;
      if (compact() && slice.partition == setup_.group.rank)
        output = narrow(setup_.s, compact_partition(place.group), 0,
                        start_in_partition(place.group, place.place), slice.elements);
      const bool merges = !output && !parts.empty() && parts.back().owner == slice.partition;
      if (merges)
        parts.back().elements += slice.elements;
      else
        parts.push_back(
            {.owner = slice.partition, .offset = at, .elements = slice.elements, .output = output});
      at += slice.elements;
    }
  }
  return parts;
}

void FlatOptimizer::reduce_parts(const Tensor& tensor, const std::vector<OwnedPart>& parts) {
  struct Share {
    std::optional<int> destination;
    std::vector<OwnedPart> parts;
  };
  // One all-reduce for all, or a reduction to each owner, in the order in which they come.
  std::vector<Share> shares;
  for (const OwnedPart& part : parts) {
    const std::optional<int> destination =
        setup_.settings.multi_rank_all_reduce ? std::nullopt : std::optional(part.owner);
    auto share = std::find_if(shares.begin(), shares.end(),
                              [&](const Share& other) { return other.destination == destination; });
    if (share == shares.end())
      share = shares.insert(shares.end(), {.destination = destination, .parts = {}});
    share->parts.push_back(part);
  }
  for (const Share& share : shares) {
    std::vector<OwnedPart> together;
    std::int64_t elements = 0;
    for (const OwnedPart& part : share.parts) {
      together.push_back(part);
      elements += part.elements;
      if (elements <= setup_.settings.reduce_bucket_elements) continue;
      reduce_to(tensor, std::exchange(together, {}), share.destination);
      elements = 0;
    }
    if (!together.empty()) reduce_to(tensor, together, share.destination);
  }
}

/// allreduce_bucket: flattened, cast for the wire, reduced.
Tensor FlatOptimizer::reduced(const std::vector<Stretch>& slices, std::optional<int> owner,
                              bool divide) {
  Session& s = setup_.s;
  const Tensor flat = flatten_dense(s, slices);
  const Dtype wire = setup_.communication_dtype();
  const Tensor sent = to(s, flat, wire);
  if (divide) div_(s, sent, static_cast<double>(setup_.group.size()));
  if (owner)
    reduce(s, setup_.group, sent, *owner, "SUM");
  else
    all_reduce(s, setup_.group, sent, "SUM");
  if (wire != flat.dtype() && (!owner || *owner == setup_.group.rank)) copy_(s, flat, sent);
  return sent;
}

void FlatOptimizer::reduce_to(const Tensor& tensor, const std::vector<OwnedPart>& parts,
                              std::optional<int> destination) {
  Session& s = setup_.s;
  // Of other ranks' parts that are alike one stands for all.
  const auto are_alike = [&](const OwnedPart& a, const OwnedPart& b) {
    return a.elements == b.elements && a.owner != setup_.group.rank && b.owner != setup_.group.rank;
  };
  std::vector<OwnedPart> firsts;
  std::vector<Stretch> slices;
  for (auto part = parts.begin(); part != parts.end();) {
    const auto end = std::find_if_not(std::next(part), parts.end(), [&](const OwnedPart& other) {
      return are_alike(*part, other);
    });
    const auto times = static_cast<std::uint32_t>(end - part);
    s.repeat(times, [&] {
      slices.push_back({{narrow(s, tensor, 0, part->offset, part->elements)}, times});
    });
    firsts.push_back(*part);
    part = end;
  }
  const Tensor flat = reduced(slices, destination, false);
  if (setup_.settings.overlap_comm) setup_.record_stream(flat, reduction_stream_);
  if (destination && *destination != setup_.group.rank) return;
  const Tensors sums = unflatten_dense(s, flat, slices);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    if (firsts[i].owner != setup_.group.rank) continue;
    if (firsts[i].output) add_(s, firsts[i].output, to(s, sums[i], firsts[i].output.dtype()));
    const Tensor& slice = slices[i].tensors.front();
    copy_(s, slice, sums[i]);
    if (setup_.settings.overlap_comm) setup_.record_stream(slice, reduction_stream_);
  }
}

void FlatOptimizer::finish_bucket() {
  const OnStream on_stream(setup_.s, reduction_stream());
  const bool contiguous = setup_.settings.contiguous_gradients;
  for (const std::size_t index : bucket_.parameters) {
    if (places_[index].in_partition) {
      if (contiguous) keep_in_partition(index);
    } else if (partitions_gradients()) {
      if (setup_.settings.overlap_comm && !contiguous)
        reduced_before_.push_back(index);
      else
        clear_gradient(index);
    }
  }
  if (bucket_.elements > 0 && bucket_.elements <= setup_.settings.reduce_bucket_elements)
    bucket_.reuse[bucket_.index] = protecting_event();
  bucket_.ready.reset();
  bucket_.elements = 0;
  bucket_.parameters.clear();
  // As Python's list.clear(): from the end.
  while (!bucket_.gradients.empty()) bucket_.gradients.pop_back();
}

/// copy_grads_in_partition: the bucket's buffer will be written again.
void FlatOptimizer::keep_in_partition(std::size_t index) {
  Session& s = setup_.s;
  if (offloads()) return offload(index);
  if (compact()) {
    if (separate_accumulation_) clear_gradient(index);
    return;
  }
  if (!grads_in_partition_) {
    std::int64_t elements = 0;
    for (const FlatGroup& group : groups_)
      for (const std::size_t owned : group.in_partition()) elements += parameter(owned).numel();
    grads_in_partition_ =
        empty(s, {elements}, {.dtype = setup_.dtype(), .device = s.settings.device});
  }
  const Tensor gradient = gradient_of(index);
  const Tensor target =
      narrow(s, view(s, grads_in_partition_, {-1}), 0, partition_fill_, gradient.numel());
  copy_(s, target, view(s, gradient, {-1}));
  gradient.set_data(view_as(s, target, gradient));
  partition_fill_ += gradient.numel();
}

PartitionSlice FlatOptimizer::own_slice(std::size_t index) const {
  const Place& place = places_[index];
  for (const PartitionSlice& slice : groups_[place.group].slices_of(place.place))
    if (slice.partition == setup_.group.rank) return slice;
  return {};
}

}  // namespace shardscope::eager::deepspeed
