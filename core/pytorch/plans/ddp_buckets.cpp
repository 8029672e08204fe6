#include "core/pytorch/plans/ddp_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardscope {
namespace {

constexpr double default_cap_mib = 25;
constexpr Bytes default_first_cap = 1_MiB;
constexpr Bytes no_limit{std::numeric_limits<std::int64_t>::max()};

/// The bucket of one dtype that is being filled.
struct OpenBucket {
  Dtype dtype;
  Bucket bucket;
  Bytes filled;
  std::size_t next_limit = 0;
};

OpenBucket& bucket_of(Dtype dtype, std::vector<OpenBucket>& open) {
  const auto found = std::find_if(open.begin(), open.end(),
                                  [&](const OpenBucket& bucket) { return bucket.dtype == dtype; });
  if (found != open.end()) return *found;
  open.push_back({.dtype = dtype, .bucket = {}, .filled = {}});
  return open.back();
}

void add(std::int64_t index, const BucketTensor& tensor, std::span<const Bytes> limits,
         OpenBucket& open, std::vector<Bucket>& closed) {
  open.bucket.tensors.push_back(index);
  open.bucket.limit = limits[open.next_limit];
  open.filled += tensor.bytes;
  if (open.filled < open.bucket.limit) return;
  closed.push_back(std::move(open.bucket));
  open.bucket = {};
  open.filled = {};
  open.next_limit = std::min(open.next_limit + 1, limits.size() - 1);
}

/// int(cap_mb * 1024 * 1024).
Bytes cap_bytes(double mib) {
  const double bytes = mib * 1048576.0;
  if (!(std::abs(bytes) < 9e18))
    throw Refusal("OverflowError", {.where = "bucket_cap_mb",
                                    .what = fmt::format("{} MiB is no size of a bucket", mib),
                                    .way_out = "give a finite number of MiB"});
  return {static_cast<std::int64_t>(bytes)};
}

/// _BucketCapacityConfig.
struct Caps {
  Bytes first, rest;
  std::vector<Bytes> listed;
};

Caps caps_of(const DdpOptions& options) {
  if (options.bucket_caps_mib.empty()) {
    const Bytes cap = cap_bytes(options.bucket_cap_mib.value_or(default_cap_mib));
    return {.first = options.bucket_cap_mib ? cap : default_first_cap, .rest = cap, .listed = {}};
  }
  Caps caps;
  for (const double mib : options.bucket_caps_mib) caps.listed.push_back(cap_bytes(mib));
  caps.first = caps.rest = *std::max_element(caps.listed.begin(), caps.listed.end());
  return caps;
}

std::vector<Bytes> first_limits(const Caps& caps, const DdpOptions& options) {
  if (!caps.listed.empty()) return caps.listed;
  if (options.static_graph || !options.find_unused_parameters) return {no_limit};
  if (caps.first < caps.rest) return {caps.first, caps.rest};
  return {caps.rest};
}

}  // namespace

std::vector<Bucket> assign_buckets(std::span<const BucketTensor> tensors,
                                   std::span<const Bytes> limits, BucketOrder order) {
  if (tensors.empty() || limits.empty())
    throw Refusal("RuntimeError",
                  {.where = "bucket assignment",
                   .what = tensors.empty() ? "there are no tensors" : "there are no limits",
                   .way_out = "give at least one"});
  std::vector<Bucket> buckets;
  std::vector<OpenBucket> open;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t index = tensors[i].index.value_or(static_cast<std::int64_t>(i));
    if (tensors[i].sparse)
      buckets.push_back({.tensors = {index}, .limit = {}});
    else
      add(index, tensors[i], limits, bucket_of(tensors[i].dtype, open), buckets);
  }
  for (auto left = open.rbegin(); left != open.rend(); ++left)
    if (!left->bucket.tensors.empty()) buckets.push_back(std::move(left->bucket));
  if (order == BucketOrder::by_first_index)
    std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) {
      return *std::min_element(a.tensors.begin(), a.tensors.end()) <
             *std::min_element(b.tensors.begin(), b.tensors.end());
    });
  return buckets;
}

DdpLimits ddp_limits(const DdpOptions& options) {
  const Caps caps = caps_of(options);
  return {.first = first_limits(caps, options),
          .rebuilt = caps.listed.empty() ? std::vector{caps.first, caps.rest} : caps.listed,
          .cap = caps.rest};
}

DdpBuckets ddp_buckets(const ModuleTree& tree, const DdpOptions& options) {
  const DdpLimits limits = ddp_limits(options);
  DdpBuckets ddp{.parameters = {}, .buckets = {}, .cap = limits.cap};
  std::vector<BucketTensor> tensors;
  for (std::size_t i = 0; i < tree.parameters.size(); ++i) {
    const TreeParameter& parameter = tree.parameters[i];
    if (parameter.same_as || !parameter.trainable) continue;
    ddp.parameters.push_back(static_cast<std::int32_t>(i));
    tensors.push_back(
        {.bytes = bytes_of(parameter.elements(), parameter.dtype), .dtype = parameter.dtype});
  }
  if (tensors.empty())
    throw Refusal("RuntimeError", {.where = "DistributedDataParallel",
                                   .what = "no parameter requires a gradient",
                                   .way_out = "run without it, or train some parameters"});
  ddp.buckets = assign_buckets(tensors, limits.first, BucketOrder::by_first_index);
  // Gradients become ready in roughly the reverse order of registration.
  std::reverse(ddp.buckets.begin(), ddp.buckets.end());
  return ddp;
}

Bytes bytes_of(const ModuleTree& tree, const DdpBuckets& buckets, const Bucket& bucket) {
  Bytes bytes;
  for (const std::int64_t tensor : bucket.tensors) {
    const std::int32_t id = buckets.parameters[static_cast<std::size_t>(tensor)];
    const TreeParameter& parameter = tree.parameters[static_cast<std::size_t>(id)];
    bytes += bytes_of(parameter.elements(), parameter.dtype);
  }
  return bytes;
}

std::optional<Refusal> refused_unused_parameters(const DdpOptions& options) {
  if (options.find_unused_parameters || options.static_graph) return std::nullopt;
  return Refusal("RuntimeError",
                 {.where = "DistributedDataParallel",
                  .what = "parameters without a gradient keep their bucket from being reduced",
                  .way_out = "set find_unused_parameters or static_graph"});
}

}  // namespace shardscope
