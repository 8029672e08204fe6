// Causal attention, forward and backward, against the whole softmax matrix in double precision.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

struct Case {
  std::int64_t batch, heads, kv_heads, length, head_dim, gap;
};
// Grouped and multi-query heads, widths that no vector divides, lengths around the block of 64,
// rows with gaps.
const std::vector<Case> cases{{1, 1, 1, 1, 4, 0},   {2, 4, 4, 9, 8, 0},    {1, 6, 2, 64, 10, 3},
                              {1, 5, 1, 65, 7, 0},  {2, 2, 1, 130, 16, 5}, {1, 2, 2, 193, 64, 0},
                              {1, 3, 3, 37, 100, 1}};

Kernel kernel_of(const Case& c, KernelKind kind) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.rows = c.batch * c.length;
  kernel.batch = c.batch;
  kernel.length = c.length;
  kernel.heads = c.heads;
  kernel.kv_heads = c.kv_heads;
  kernel.head_dim = c.head_dim;
  kernel.q_stride = c.heads * c.head_dim + c.gap;
  kernel.kv_stride = c.kv_heads * c.head_dim + c.gap;
  kernel.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  return kernel;
}

struct Inputs {
  std::vector<float> q, k, v, dy;
};
Inputs inputs_of(const Kernel& k) {
  return {numbers(k.rows * k.q_stride, 1), numbers(k.rows * k.kv_stride, 2),
          numbers(k.rows * k.kv_stride, 3), numbers(k.rows * k.heads * k.head_dim, 4)};
}

struct Results {
  std::vector<double> y, lse, dq, dk, dv;
};

/// One query row of one head: its softmax row, its output, and its share of every gradient.
void reference_row(const Kernel& k, const Inputs& in, std::int64_t b, std::int64_t h,
                   std::int64_t t, Results& out) {
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

Results reference(const Kernel& k, const Inputs& in) {
  Results out;
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

/// Elements in the gaps between rows, which must stay as they were, are set to what stood there.
void keep_gaps(std::vector<double>& expected, float before, std::int64_t stride,
               std::int64_t used) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (static_cast<std::int64_t>(i) % stride >= used) expected[i] = before;
}

TEST(AttentionForward, EqualsTheWholeSoftmax) {
  for (const Case& c : cases)
    on_every_device([&](Device& device) {
      SCOPED_TRACE(c.length);
      const Kernel k = kernel_of(c, KernelKind::attention_forward);
      const Inputs in = inputs_of(k);
      const Results expected = reference(k, in);
      GuardedCall call(k);
      call.with(in.q)
          .with(in.k)
          .with(in.v)
          .with(std::vector<float>(in.dy.size()))
          .with(std::vector<float>(expected.lse.size()))
          .run(device);
      expect_close(call.result(3), expected.y, 3e-6, "y");
      expect_close(call.result(4), expected.lse, 3e-6, "lse");
    });
}

TEST(AttentionBackward, EqualsTheWholeSoftmax) {
  for (const Case& c : cases)
    on_every_device([&](Device& device) {
      SCOPED_TRACE(c.length);
      const Kernel k = kernel_of(c, KernelKind::attention_backward);
      const Inputs in = inputs_of(k);
      Results expected = reference(k, in);
      const std::vector<float> y(expected.y.begin(), expected.y.end());
      const std::vector<float> lse(expected.lse.begin(), expected.lse.end());
      GuardedCall call(k);
      call.with(in.dy)
          .with(in.q)
          .with(in.k)
          .with(in.v)
          .with(y)
          .with(lse)
          .with(std::vector<float>(in.q.size(), 9))
          .with(std::vector<float>(in.k.size(), 9))
          .with(std::vector<float>(in.v.size(), 9))
          .run(device);
      keep_gaps(expected.dq, 9, k.q_stride, k.heads * k.head_dim);
      keep_gaps(expected.dk, 9, k.kv_stride, k.kv_heads * k.head_dim);
      keep_gaps(expected.dv, 9, k.kv_stride, k.kv_heads * k.head_dim);
      expect_close(call.result(6), expected.dq, 1e-5, "dq");
      expect_close(call.result(7), expected.dk, 1e-5, "dk");
      expect_close(call.result(8), expected.dv, 1e-5, "dv");
    });
}

TEST(AttentionForward, ReadsAndWritesFusedQkvRows) {
  const Case c{1, 2, 2, 70, 8, 0};
  on_every_device([&](Device& device) {
    Kernel k = kernel_of(c, KernelKind::attention_forward);
    k.q_stride = k.kv_stride = 3 * 16;
    const auto qkv = numbers(k.rows * 48, 1);
    Inputs in{qkv, {qkv.begin() + 16, qkv.end()}, {qkv.begin() + 32, qkv.end()}, {}};
    in.k.resize(qkv.size());
    in.v.resize(qkv.size());
    in.dy.resize(k.rows * 16);
    GuardedCall call(k);
    call.with(qkv)
        .alias(0, 16)
        .alias(0, 32)
        .with(std::vector<float>(k.rows * 16))
        .with(std::vector<float>(2 * 70))
        .run(device);
    expect_close(call.result(3), reference(k, in).y, 3e-6, "y");
  });
}

TEST(AttentionForward, LargeScoresNeitherOverflowNorVanish) {
  const Case c{1, 1, 1, 100, 4, 0};
  on_every_device([&](Device& device) {
    const Kernel k = kernel_of(c, KernelKind::attention_forward);
    Inputs in = inputs_of(k);
    for (float& x : in.q) x *= 100;
    GuardedCall call(k);
    call.with(in.q)
        .with(in.k)
        .with(in.v)
        .with(std::vector<float>(in.dy.size()))
        .with(std::vector<float>(100))
        .run(device);
    expect_close(call.result(3), reference(k, in).y, 2e-4, "y");
  });
}

TEST(AttentionForward, NaNInAKeyReachesEveryLaterRow) {
  const Case c{1, 1, 1, 70, 4, 0};
  on_every_device([&](Device& device) {
    const Kernel k = kernel_of(c, KernelKind::attention_forward);
    Inputs in = inputs_of(k);
    in.k[5 * 4] = std::numeric_limits<float>::quiet_NaN();
    GuardedCall call(k);
    call.with(in.q)
        .with(in.k)
        .with(in.v)
        .with(std::vector<float>(in.dy.size()))
        .with(std::vector<float>(70))
        .run(device);
    const auto y = call.result(3);
    EXPECT_FALSE(std::isnan(y[4 * 4]));
    for (std::int64_t t = 5; t < 70; ++t) EXPECT_TRUE(std::isnan(y[t * 4])) << t;
  });
}

}  // namespace
}  // namespace shardscope::test
