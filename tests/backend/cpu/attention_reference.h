// Causal attention, forward and backward, by the whole softmax matrix in double precision.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/kernel.h"

namespace shardscope::test {

/// `gap`: elements between the rows of one position and the next.
struct AttentionCase {
  std::int64_t batch, heads, kv_heads, length, head_dim, gap;
};

AttentionKernel attention_kernel(const AttentionCase& c);

struct AttentionInputs {
  std::vector<float> q, k, v, dy;
};

/// Normal numbers for all of them.
AttentionInputs attention_inputs(const AttentionKernel& kernel);

struct AttentionResults {
  std::vector<double> y, lse, dq, dk, dv;
};

AttentionResults attention_reference(const AttentionKernel& kernel, const AttentionInputs& in);

/// Sets the gaps between the rows of `expected`, which must stay as they were, to what stood there.
void keep_gaps(std::vector<double>& expected, float before, std::int64_t stride, std::int64_t used);

}  // namespace shardscope::test
