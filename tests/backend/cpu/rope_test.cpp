// Rotary embedding: the table of angles and the rotation of queries and keys. (Llama 3's blended
// frequencies are compared with transformers' own in the recordings.)
#include <cmath>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

constexpr std::int64_t batch = 2, length = 5, heads = 3, kv_heads = 1, head_dim = 10, gap = 2;

constexpr RopeKernel shape{.rows = batch * length,
                           .batch = batch,
                           .length = length,
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .head_dim = head_dim,
                           .q_stride = heads * head_dim + gap,
                           .kv_stride = kv_heads * head_dim + gap};

/// cos in the first half of each row, sin in the second.
std::vector<float> table_of(double theta, double divisor) {
  std::vector<float> table;
  for (std::int64_t t = 0; t < length; ++t)
    for (std::int64_t i = 0; i < head_dim; ++i) {
      const auto pair = static_cast<double>(i % (head_dim / 2));
      const double angle = static_cast<double>(t) * std::pow(theta, -2 * pair / head_dim) / divisor;
      table.push_back(static_cast<float>(i < head_dim / 2 ? std::cos(angle) : std::sin(angle)));
    }
  return table;
}

TEST(RopeTable, HoldsCosineAndSineOfPositionTimesFrequency) {
  on_every_device([](Device& device) {
    RopeTableKernel k{.length = length, .head_dim = head_dim};
    k.rope.theta = 500;
    GuardedCall call(k);
    call.with(std::vector<float>(length * head_dim)).run(device);
    expect_close(call.result(0), widened(table_of(500, 1)), 5e-7, "table");
  });
}

TEST(RopeTable, LinearScalingDividesEveryFrequency) {
  on_every_device([](Device& device) {
    RopeTableKernel k{.length = length, .head_dim = head_dim};
    k.rope.theta = 500;
    k.rope.linear_factor = 4;
    GuardedCall call(k);
    call.with(std::vector<float>(length * head_dim)).run(device);
    expect_close(call.result(0), widened(table_of(500, 4)), 5e-7, "table");
  });
}

/// Element i pairs with i + head_dim / 2; `sign` -1 turns back.
std::vector<double> rotated(const std::vector<float>& x, std::int64_t stride, std::int64_t count,
                            double sign) {
  const auto table = table_of(500, 1);
  std::vector<double> out = widened(x);
  const std::int64_t half = head_dim / 2;
  for (std::int64_t r = 0; r < batch * length; ++r)
    for (std::int64_t h = 0; h < count; ++h)
      for (std::int64_t i = 0; i < half; ++i) {
        const double c = table[r % length * head_dim + i];
        const double s = sign * table[r % length * head_dim + half + i];
        const std::int64_t at = r * stride + h * head_dim + i;
        const double a = x[at], b = x[at + half];
        out[at] = a * c - b * s;
        out[at + half] = b * c + a * s;
      }
  return out;
}

void check(Device& device, const Kernel& kernel, double sign) {
  const auto q = numbers(shape.rows * shape.q_stride, 1);
  const auto keys = numbers(shape.rows * shape.kv_stride, 2);
  GuardedCall call(kernel);
  call.with(table_of(500, 1)).with(q).with(keys).run(device);
  expect_close(call.result(1), rotated(q, shape.q_stride, heads, sign), 1e-6, "q");
  expect_close(call.result(2), rotated(keys, shape.kv_stride, kv_heads, sign), 1e-6, "k");
}

TEST(RopeForward, RotatesPairsHalfAHeadApart) {
  on_every_device([](Device& device) { check(device, RopeForwardKernel{shape}, 1); });
}

TEST(RopeBackward, RotatesBack) {
  on_every_device([](Device& device) { check(device, RopeBackwardKernel{shape}, -1); });
}

}  // namespace
}  // namespace shardscope::test
