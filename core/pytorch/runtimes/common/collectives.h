// torch.distributed's collectives on the engine: told to the observers, nothing is sent. What an
// asynchronous one returns is for `s.wait_work`.
#pragma once

#include <string_view>
#include <vector>

#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager {

/// dist.all_gather_into_tensor: c10d._allgather_base_.
WorkId all_gather_single(Session& s, const ProcessGroup& group, const Tensor& output,
                         const Tensor& input, bool asynchronous = false);

/// dist.all_gather into a tensor for each rank: c10d.allgather_.
WorkId all_gather_list(Session& s, const ProcessGroup& group, const std::vector<Tensor>& outputs,
                       const Tensor& input, bool asynchronous = false);

/// dist.reduce_scatter_tensor: c10d._reduce_scatter_base_. `reduction`: ReduceOp's name, "AVG".
WorkId reduce_scatter_single(Session& s, const ProcessGroup& group, const Tensor& output,
                             const Tensor& input, std::string_view reduction,
                             bool asynchronous = false);

/// dist.all_reduce: c10d.allreduce_, in place.
WorkId all_reduce(Session& s, const ProcessGroup& group, const Tensor& tensor,
                  std::string_view reduction, bool asynchronous = false);

/// dist.broadcast from the rank at place `source` of the group: c10d.broadcast_, in place.
WorkId broadcast(Session& s, const ProcessGroup& group, const Tensor& tensor, int source,
                 bool asynchronous = false);

/// dist.broadcast of the tensor's bytes: tensor.view(torch.uint8).
void broadcast_bytes(Session& s, const ProcessGroup& group, const Tensor& tensor, int source);

/// dist.reduce to the rank at place `destination` of the group: c10d.reduce_, in place.
void reduce(Session& s, const ProcessGroup& group, const Tensor& tensor, int destination,
            std::string_view reduction);

/// dist.barrier.
void barrier(Session& s, const ProcessGroup& group);

/// dist.scatter from place `source`: what this rank gets, of `input_elements` in all at the source.
void scatter(Session& s, const ProcessGroup& group, const Tensor& output,
             std::int64_t input_elements, int source);

// What DTensor issues: torch.distributed._functional_collectives.

/// A new tensor with all parts along dimension 0. Both are wrapped for who waits.
Tensor functional_all_gather(Session& s, const ProcessGroup& group, const Tensor& input);
/// A new tensor. `reduction`: "sum", "max".
Tensor functional_all_reduce(Session& s, const ProcessGroup& group, const Tensor& input,
                             std::string_view reduction);
/// _c10d_functional.wait_tensor: a mark, since no dispatch mode sees it.
void wait_tensor(Session& s, const Tensor& tensor);

}  // namespace shardscope::eager
