// What FSDP1 does with storages beneath autograd.
#pragma once

#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager::fsdp1 {

/// torch.distributed.utils._alloc_storage: gives the storage room for the whole tensor.
void allocate_storage(const Tensor& tensor);
/// _free_storage: the tensor stays, without memory.
void free_storage(const Tensor& tensor);
/// _same_storage_size(tensor, tensor.numel()).
bool is_allocated(const Tensor& tensor);
bool same_storage(const Tensor& a, const Tensor& b);

/// torch.nn.functional.pad(tensor, [0, elements]) of a flat tensor.
Tensor pad_right(Session& s, const Tensor& tensor, std::int64_t elements);
/// Tensor.pin_memory(): a page-locked copy on the CPU.
Tensor pinned(Session& s, const Tensor& tensor);
/// torch.empty_like(tensor, device=..., dtype=...).
Tensor empty_like_on(Session& s, const Tensor& tensor, Like like);

}  // namespace shardscope::eager::fsdp1
