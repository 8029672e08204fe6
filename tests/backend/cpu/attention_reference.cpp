#include "tests/backend/cpu/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

/// One query row of one head: its softmax row, its output, and its share of every gradient.
void reference_row(const AttentionKernel& k, const AttentionInputs& in, std::int64_t b,
                   std::int64_t h, std::int64_t t, AttentionResults& out) {
  const std::int64_t d = k.head_dim, kv = h / (k.heads / k.kv_heads);
  const std::int64_t q0 = (b * k.length + t) * k.q_stride + h * d;
  const std::int64_t y0 = (b * k.length + t) * k.heads * d + h * d;
  const auto row0 = [&](std::int64_t s) { return (b * k.length + s) * k.kv_stride + kv * d; };
  std::vector<double> p(t + 1), dp(t + 1);
  double largest = -std::numeric_limits<double>::infinity(), total = 0, dot = 0;
  for (std::int64_t s = 0; s <= t; ++s) {
    for (std::int64_t i = 0; i < d; ++i) p[s] += k.scale * in.q[q0 + i] * in.k[row0(s) + i];
    largest = std::max(largest, p[s]);
  }
  for (double& x : p) total += x = std::exp(x - largest);
  out.lse[(b * k.heads + h) * k.length + t] = largest + std::log(total);
  for (std::int64_t s = 0; s <= t; ++s) {
    p[s] /= total;
    for (std::int64_t i = 0; i < d; ++i) {
      out.y[y0 + i] += p[s] * in.v[row0(s) + i];
      dp[s] += double{in.dy[y0 + i]} * in.v[row0(s) + i];
      out.dv[row0(s) + i] += p[s] * in.dy[y0 + i];
    }
    dot += p[s] * dp[s];
  }
  for (std::int64_t s = 0; s <= t; ++s) {
    const double ds = k.scale * p[s] * (dp[s] - dot);
    for (std::int64_t i = 0; i < d; ++i) {
      out.dq[q0 + i] += ds * in.k[row0(s) + i];
      out.dk[row0(s) + i] += ds * in.q[q0 + i];
    }
  }
}

}  // namespace

AttentionKernel attention_kernel(const AttentionCase& c) {
  return {.rows = c.batch * c.length,
          .batch = c.batch,
          .length = c.length,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .q_stride = c.heads * c.head_dim + c.gap,
          .kv_stride = c.kv_heads * c.head_dim + c.gap,
          .scale = 1 / std::sqrt(static_cast<double>(c.head_dim))};
}

AttentionInputs attention_inputs(const AttentionKernel& k) {
  return {numbers(k.rows * k.q_stride, 1), numbers(k.rows * k.kv_stride, 2),
          numbers(k.rows * k.kv_stride, 3), numbers(k.rows * k.heads * k.head_dim, 4)};
}

AttentionResults attention_reference(const AttentionKernel& k, const AttentionInputs& in) {
  AttentionResults out;
  out.y.resize(in.dy.size());
  out.lse.resize(k.batch * k.heads * k.length);
  out.dq.resize(in.q.size());
  out.dk.resize(in.k.size());
  out.dv.resize(in.v.size());
  for (std::int64_t b = 0; b < k.batch; ++b)
    for (std::int64_t h = 0; h < k.heads; ++h)
      for (std::int64_t t = 0; t < k.length; ++t) reference_row(k, in, b, h, t, out);
  return out;
}

void keep_gaps(std::vector<double>& expected, float before, std::int64_t stride,
               std::int64_t used) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (static_cast<std::int64_t>(i) % stride >= used) expected[i] = before;
}

}  // namespace shardscope::test
