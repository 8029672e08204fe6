// The collectives of tensor parallelism in the schedule of one rank's part of a model.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.h"

namespace shardscope {

struct TensorParallel {
  int ranks = 1;            ///< neighbours: they have the same data
  std::int64_t tokens = 0;  ///< of a micro-batch
  std::int64_t hidden = 0;
};

/// Adds to the steady step what ranks of a group sum over: in the forward, and where it is run
/// again, the results of products that are divided by rows and of the embedding, and the loss's
/// maxima, sums and logits of the labels; in the backward the gradients of what goes into products
/// that are divided by columns. Compute waits for each, as Megatron's does. Other groups are spread
/// out: their ranks are as far apart as a tensor group is wide. Source: Megatron-LM
/// core/tensor_parallel/{layers,mappings,cross_entropy}.py; arXiv:1909.08053, section 3.
Schedule with_tensor_parallel(Schedule schedule, const TensorParallel& tensor);

}  // namespace shardscope
