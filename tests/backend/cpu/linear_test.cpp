// The three linear kernels against sums in double precision, oneDNN and our own product alike.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

struct Sizes {
  std::int64_t rows, in, out;
};
// One row, sizes that no tile divides, and more than one block of depth (256) and of columns.
const std::vector<Sizes> all_sizes{
    {1, 1, 1}, {3, 5, 7}, {37, 33, 65}, {70, 300, 150}, {13, 64, 520}};

// Up to 520 products of size 1 are summed in fp32: sums of about 25, each step off by 25 * 2^-24 at
// most.
constexpr double tolerance = 1e-4;

template <LinearKernel K>
double weight_at(const std::vector<float>& weight, const K& k, std::int64_t in, std::int64_t out) {
  return weight[k.layout == WeightLayout::in_out ? in * k.out + out : out * k.in + in];
}

std::vector<double> forward(const LinearForwardKernel& k, const std::vector<float>& x,
                            const std::vector<float>& w) {
  std::vector<double> y(k.rows * k.out);
  for (std::int64_t r = 0; r < k.rows; ++r)
    for (std::int64_t o = 0; o < k.out; ++o)
      for (std::int64_t i = 0; i < k.in; ++i)
        y[r * k.out + o] += double{x[r * k.in + i]} * weight_at(w, k, i, o);
  return y;
}

std::vector<double> backward_input(const LinearBackwardInputKernel& k, const std::vector<float>& dy,
                                   const std::vector<float>& w) {
  std::vector<double> dx(k.rows * k.in);
  for (std::int64_t r = 0; r < k.rows; ++r)
    for (std::int64_t i = 0; i < k.in; ++i)
      for (std::int64_t o = 0; o < k.out; ++o)
        dx[r * k.in + i] += double{dy[r * k.out + o]} * weight_at(w, k, i, o);
  return dx;
}

std::vector<double> backward_weight(const LinearBackwardWeightKernel& k,
                                    const std::vector<float>& x, const std::vector<float>& dy) {
  std::vector<double> dw(k.in * k.out);
  for (std::int64_t i = 0; i < k.in; ++i)
    for (std::int64_t o = 0; o < k.out; ++o) {
      double sum = 0;
      for (std::int64_t r = 0; r < k.rows; ++r)
        sum += double{x[r * k.in + i]} * double{dy[r * k.out + o]};
      dw[k.layout == WeightLayout::in_out ? i * k.out + o : o * k.in + i] = sum;
    }
  return dw;
}

void add_to(std::vector<double>& to, const std::vector<float>& values) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += values[i % values.size()];
}

template <LinearKernel K, class Body>
void for_each_shape(const Body& body) {
  for (const Sizes& s : all_sizes)
    for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in})
      on_every_device([&](Device& device) {
        SCOPED_TRACE(testing::Message() << s.rows << " x " << s.in << " x " << s.out);
        body(device, K{.layout = layout, .rows = s.rows, .in = s.in, .out = s.out});
      });
}

TEST(LinearForward, MultipliesByTheWeightAsItIsStored) {
  for_each_shape<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    const auto x = numbers(k.rows * k.in, 1), w = numbers(k.in * k.out, 2);
    GuardedCall call(k);
    call.with(x).with(w).absent().absent().with(numbers(k.rows * k.out, 3)).run(device);
    expect_close(call.result(4), forward(k, x, w), tolerance, "y");
  });
}

TEST(LinearForward, AddsBiasToEveryRow) {
  for_each_shape<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    k.has_bias = true;
    const auto x = numbers(k.rows * k.in, 1), w = numbers(k.in * k.out, 2), b = numbers(k.out, 3);
    GuardedCall call(k);
    call.with(x).with(w).with(b).absent().with(numbers(k.rows * k.out, 4)).run(device);
    auto expected = forward(k, x, w);
    add_to(expected, b);
    expect_close(call.result(4), expected, tolerance, "y");
  });
}

TEST(LinearForward, AddsBiasAndAResidualThatStandsElsewhere) {
  for_each_shape<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    k.has_bias = k.has_residual = true;
    const auto x = numbers(k.rows * k.in, 1), w = numbers(k.in * k.out, 2), b = numbers(k.out, 3);
    const auto residual = numbers(k.rows * k.out, 4);
    GuardedCall call(k);
    call.with(x).with(w).with(b).with(residual).with(numbers(k.rows * k.out, 5)).run(device);
    auto expected = forward(k, x, w);
    add_to(expected, b);
    add_to(expected, residual);
    expect_close(call.result(4), expected, tolerance, "y");
    EXPECT_EQ(call.result(3), residual);
  });
}

TEST(LinearForward, AddsToTheOutputWhereItIsTheResidual) {
  for_each_shape<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    k.has_residual = true;
    const auto x = numbers(k.rows * k.in, 1), w = numbers(k.in * k.out, 2);
    const auto residual = numbers(k.rows * k.out, 4);
    GuardedCall call(k);
    call.with(x).with(w).absent().alias(4).with(residual).run(device);
    auto expected = forward(k, x, w);
    add_to(expected, residual);
    expect_close(call.result(4), expected, tolerance, "y");
  });
}

TEST(LinearForward, DoesNotHideNaN) {
  for_each_shape<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    auto x = numbers(k.rows * k.in, 1);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> w(k.in * k.out, 0.0f);
    GuardedCall call(k);
    call.with(x).with(w).absent().absent().with(numbers(k.rows * k.out, 3)).run(device);
    EXPECT_TRUE(std::isnan(call.result(4)[0]));
  });
}

TEST(LinearBackwardInput, MultipliesByTheTransposedWeight) {
  for_each_shape<LinearBackwardInputKernel>([](Device& device, LinearBackwardInputKernel k) {
    const auto dy = numbers(k.rows * k.out, 1), w = numbers(k.in * k.out, 2);
    GuardedCall call(k);
    call.with(dy).with(w).with(numbers(k.rows * k.in, 3)).run(device);
    expect_close(call.result(2), backward_input(k, dy, w), tolerance, "dx");
  });
}

TEST(LinearBackwardInput, AddsWhenAccumulating) {
  for_each_shape<LinearBackwardInputKernel>([](Device& device, LinearBackwardInputKernel k) {
    k.accumulate_input = true;
    const auto dy = numbers(k.rows * k.out, 1), w = numbers(k.in * k.out, 2);
    const auto before = numbers(k.rows * k.in, 3);
    GuardedCall call(k);
    call.with(dy).with(w).with(before).run(device);
    auto expected = backward_input(k, dy, w);
    add_to(expected, before);
    expect_close(call.result(2), expected, tolerance, "dx");
  });
}

TEST(LinearBackwardWeight, MakesWeightAndBiasGradients) {
  for (const bool accumulate : {false, true})
    for_each_shape<LinearBackwardWeightKernel>([&](Device& device, LinearBackwardWeightKernel k) {
      k.accumulate = accumulate;
      k.has_bias = true;
      const auto x = numbers(k.rows * k.in, 1), dy = numbers(k.rows * k.out, 2);
      const auto dw = numbers(k.in * k.out, 3), db = numbers(k.out, 4);
      GuardedCall call(k);
      call.with(x).with(dy).with(dw).with(db).run(device);
      auto expected = backward_weight(k, x, dy);
      std::vector<double> bias(k.out);
      for (std::int64_t i = 0; i < k.rows * k.out; ++i) bias[i % k.out] += dy[i];
      if (accumulate) add_to(expected, dw);
      if (accumulate) add_to(bias, db);
      expect_close(call.result(2), expected, tolerance, "dweight");
      expect_close(call.result(3), bias, tolerance, "dbias");
    });
}

TEST(LinearBackwardWeight, MakesOneOfTheTwoAlone) {
  for_each_shape<LinearBackwardWeightKernel>([](Device& device, LinearBackwardWeightKernel k) {
    const auto x = numbers(k.rows * k.in, 1), dy = numbers(k.rows * k.out, 2);
    GuardedCall weight_only(k);
    weight_only.with(x).with(dy).with(numbers(k.in * k.out, 3)).absent().run(device);
    expect_close(weight_only.result(2), backward_weight(k, x, dy), tolerance, "dweight");
    k.has_bias = true;
    k.has_weight_gradient = false;
    GuardedCall bias_only(k);
    bias_only.with(x).with(dy).absent().with(numbers(k.out, 4)).run(device);
    std::vector<double> bias(k.out);
    for (std::int64_t i = 0; i < k.rows * k.out; ++i) bias[i % k.out] += dy[i];
    expect_close(bias_only.result(3), bias, tolerance, "dbias");
  });
}

}  // namespace
}  // namespace shardscope::test
