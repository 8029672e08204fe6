// Causal attention, forward and backward, against the whole softmax matrix in double precision.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/attention_reference.h"
#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

// Grouped and multi-query heads, widths that no vector divides, lengths around the block of 64,
// rows with gaps.
const std::vector<AttentionCase> cases{
    {1, 1, 1, 1, 4, 0},    {2, 4, 4, 9, 8, 0},    {1, 6, 2, 64, 10, 3}, {1, 5, 1, 65, 7, 0},
    {2, 2, 1, 130, 16, 5}, {1, 2, 2, 193, 64, 0}, {1, 3, 3, 37, 100, 1}};

TEST(AttentionForward, EqualsTheWholeSoftmax) {
  for (const AttentionCase& c : cases)
    on_every_device([&](Device& device) {
      SCOPED_TRACE(c.length);
      const AttentionForwardKernel k{attention_kernel(c)};
      const AttentionInputs in = attention_inputs(k);
      const AttentionResults expected = attention_reference(k, in);
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
  for (const AttentionCase& c : cases)
    on_every_device([&](Device& device) {
      SCOPED_TRACE(c.length);
      const AttentionBackwardKernel k{attention_kernel(c)};
      const AttentionInputs in = attention_inputs(k);
      AttentionResults expected = attention_reference(k, in);
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
  const AttentionCase c{1, 2, 2, 70, 8, 0};
  on_every_device([&](Device& device) {
    AttentionForwardKernel k{attention_kernel(c)};
    k.q_stride = k.kv_stride = 3 * 16;
    const auto qkv = numbers(k.rows * 48, 1);
    AttentionInputs in{qkv, {qkv.begin() + 16, qkv.end()}, {qkv.begin() + 32, qkv.end()}, {}};
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
    expect_close(call.result(3), attention_reference(k, in).y, 3e-6, "y");
  });
}

TEST(AttentionForward, LargeScoresNeitherOverflowNorVanish) {
  const AttentionCase c{1, 1, 1, 100, 4, 0};
  on_every_device([&](Device& device) {
    const AttentionForwardKernel k{attention_kernel(c)};
    AttentionInputs in = attention_inputs(k);
    for (float& x : in.q) x *= 100;
    GuardedCall call(k);
    call.with(in.q)
        .with(in.k)
        .with(in.v)
        .with(std::vector<float>(in.dy.size()))
        .with(std::vector<float>(100))
        .run(device);
    expect_close(call.result(3), attention_reference(k, in).y, 2e-4, "y");
  });
}

TEST(AttentionForward, NaNInAKeyReachesEveryLaterRow) {
  const AttentionCase c{1, 1, 1, 70, 4, 0};
  on_every_device([&](Device& device) {
    const AttentionForwardKernel k{attention_kernel(c)};
    AttentionInputs in = attention_inputs(k);
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
