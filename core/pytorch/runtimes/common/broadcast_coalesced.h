// Tensors broadcast together, a bucket at a time.
#pragma once

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::ddp {

/// dist._broadcast_coalesced from rank 0: tensors of one dtype go flattened, up to `bucket` bytes
/// at a time, at most two buckets in flight. Source: torch/csrc/distributed/c10d/comm.cpp.
void broadcast_coalesced(Session& s, const ProcessGroup& group, const Tensors& tensors,
                         Bytes bucket);

/// DistributedDataParallel's broadcast_bucket_size.
inline constexpr Bytes broadcast_bucket_size = 250_MiB;

}  // namespace shardscope::eager::ddp
