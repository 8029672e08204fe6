// The names under which PyTorch's profiler (Kineto) and the tools that read it know our operations.
#pragma once

#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Kernel name of a collective in NCCL's spelling, by which tools tell communication from compute
/// (HTA: "^nccl.*Kernel"): "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)". A
/// span of no known kind is "Generic".
std::string nccl_kernel_name(OperationKind kind, Dtype dtype);

/// Name of a copy, by which tools tell its direction: "Memcpy HtoD (Pinned -> Device)". What is
/// offloaded lies in pinned memory of the host.
std::string_view memcpy_name(CopyWay way);

/// "Collective name" of record_param_comms: "_allgather_base", "_reduce_scatter_base", "allreduce",
/// ...
std::string_view collective_name(OperationKind kind);

/// c10's spelling: "Float", "BFloat16", "Long".
std::string_view c10_name(Dtype dtype);

}  // namespace shardscope
