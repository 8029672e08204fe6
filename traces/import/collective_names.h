// What the names of collectives and of element types in other people's traces mean.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/dtype.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Of an operator ("c10d::_allgather_base_"), NCCL's argument ("_allgather_base"), a transport's
/// call ("gloo:all_gather", "nccl:_all_gather_base") or a kernel
/// ("ncclDevKernel_AllGather_RING_LL", "ncclKernel_AllReduce_RING_LL_Sum_float"). None for a kernel
/// whose name is general.
std::optional<OperationKind> collective_kind(std::string_view name);

/// "Float", "float", "c10::BFloat16": c10's and C++'s spellings.
std::optional<Dtype> traced_dtype(std::string_view name);

}  // namespace shardscope
