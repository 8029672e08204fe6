// DistributedDataParallel: how gradients are put into buckets.
// Source: torch 2.15, torch/csrc/distributed/c10d/reducer.cpp and torch/nn/parallel/distributed.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/base/refusal.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {

/// A tensor to be put into a bucket.
struct BucketTensor {
  Bytes bytes;
  Dtype dtype = Dtype::float32;
  bool sparse = false;  ///< its gradient is expected to be sparse: it gets a bucket of its own
  /// The index that buckets name it by; absent: its place in the list.
  std::optional<std::int64_t> index;
};

struct Bucket {
  std::vector<std::int64_t> tensors;  ///< indices, in the order in which they came
  Bytes limit;                        ///< what it was filled up to; 0 for a sparse gradient
  bool operator==(const Bucket&) const = default;
};

/// Whether the caller names indices itself: buckets then stay in the order in which they closed
/// instead of being sorted by their first index.
enum class BucketOrder : std::uint8_t { by_first_index, as_closed };

/// compute_bucket_assignment_by_size: a bucket, one at a time for each dtype, closes as soon as it
/// holds its limit; the last limit repeats. Example: four tensors of 400 bytes, limits 400 and 800:
/// {0}, {1, 2}, {3}. Left-over buckets of `as_closed` come in the reverse order of their dtypes'
/// first tensors (the library iterates a hash map, which does that). Throws Refusal where the
/// library raises.
std::vector<Bucket> assign_buckets(std::span<const BucketTensor> tensors,
                                   std::span<const Bytes> limits, BucketOrder order);

/// Arguments of DistributedDataParallel that decide on buckets.
struct DdpOptions {
  std::optional<double> bucket_cap_mib;  ///< bucket_cap_mb: MiB in truth; absent: 25, the first 1
  std::vector<double> bucket_caps_mib;   ///< bucket_cap_mb_list; empty: not given
  bool find_unused_parameters = false;
  bool static_graph = false;
};

/// What buckets are filled up to.
struct DdpLimits {
  std::vector<Bytes> first;    ///< in the first iteration
  std::vector<Bytes> rebuilt;  ///< once they are rebuilt in the order of readiness
  Bytes cap;                   ///< bucket_bytes_cap
};

/// _BucketCapacityConfig.compute_bucket_size_limits, with the reducer's own limits for rebuilding.
DdpLimits ddp_limits(const DdpOptions& options);

/// The buckets of the first iteration, before they are rebuilt in the order of readiness.
struct DdpBuckets {
  std::vector<std::int32_t> parameters;  ///< in ModuleTree::parameters; buckets index this list
  std::vector<Bucket> buckets;           ///< in the order in which they are reduced
  Bytes cap;                             ///< bucket_bytes_cap
  bool operator==(const DdpBuckets&) const = default;
};

/// Throws Refusal if there is nothing to train. Unless unused parameters are looked for or limits
/// are listed, the first iteration has a single bucket.
DdpBuckets ddp_buckets(const ModuleTree& tree, const DdpOptions& options);

/// Bytes of a bucket of `ddp_buckets`.
Bytes bytes_of(const ModuleTree& tree, const DdpBuckets& buckets, const Bucket& bucket);

/// What the second forward raises if some parameters got no gradient in the first iteration; none
/// where DDP copes with that.
std::optional<Refusal> refused_unused_parameters(const DdpOptions& options);

}  // namespace shardscope
