// Linear kernels with a gelu joined to them, and with gaps between the rows of their output.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/bfloat16.h"
#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

constexpr double tolerance = 1e-5;

/// Sizes that no tile divides.
template <LinearKernel K, class Body>
void for_each_layout(const Body& body) {
  for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in})
    on_every_device([&](Device& device) {
      body(device, K{.layout = layout, .rows = 19, .in = 21, .out = 37});
    });
}

template <LinearKernel K>
double weight_at(const std::vector<float>& weight, const K& k, std::int64_t in, std::int64_t out) {
  return weight[k.layout == WeightLayout::in_out ? in * k.out + out : out * k.in + in];
}

/// Row r of x times the weight's column o.
double product(const LinearForwardKernel& k, const std::vector<float>& x,
               const std::vector<float>& w, std::int64_t r, std::int64_t o) {
  double sum = 0;
  for (std::int64_t i = 0; i < k.in; ++i) sum += double{x[r * k.in + i]} * weight_at(w, k, i, o);
  return sum;
}

/// h / 2 (1 + tanh u), u = sqrt(2 / pi) (h + 0.044715 h^3)
double gelu(double h) {
  return h / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (h + 0.044715 * h * h * h)));
}
double gelu_derivative(double h) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (h + 0.044715 * h * h * h));
  const double du = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * h * h);
  return (1 + t) / 2 + h / 2 * (1 - t * t) * du;
}

TEST(LinearGelu, GivesTheGeluAndWhatItIsOf) {
  for_each_layout<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    k.has_gelu = k.has_bias = true;
    const auto x = numbers(k.rows * k.in, 1), w = numbers(k.in * k.out, 2, 0.3);
    const auto bias = numbers(k.out, 3);
    GuardedCall call(k);
    call.with(x).with(w).with(bias).absent().with(numbers(k.rows * k.out, 4));
    call.with(numbers(k.rows * k.out, 5)).run(device);
    std::vector<double> h, y;
    for (std::int64_t r = 0; r < k.rows; ++r)
      for (std::int64_t o = 0; o < k.out; ++o) {
        h.push_back(product(k, x, w, r, o) + double{bias[o]});
        y.push_back(gelu(h.back()));
      }
    expect_close(call.result(5), h, tolerance, "h");
    expect_close(call.result(4), y, tolerance, "y");
  });
}

TEST(LinearGelu, TakesTheInputGradientThroughTheGelu) {
  for_each_layout<LinearBackwardInputKernel>([](Device& device, LinearBackwardInputKernel k) {
    k.has_gelu = true;
    const auto dy = numbers(k.rows * k.out, 1), w = numbers(k.in * k.out, 2, 0.3);
    const auto h = numbers(k.rows * k.in, 3, 2.0);
    GuardedCall call(k);
    call.with(dy).with(w).with(numbers(k.rows * k.in, 4)).with(h).run(device);
    std::vector<double> expected;
    for (std::int64_t r = 0; r < k.rows; ++r)
      for (std::int64_t i = 0; i < k.in; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < k.out; ++o)
          sum += double{dy[r * k.out + o]} * weight_at(w, k, i, o);
        expected.push_back(sum * gelu_derivative(h[r * k.in + i]));
      }
    expect_close(call.result(2), expected, tolerance, "dx");
  });
}

TEST(LinearGelu, IsOfTheProductBeforeItIsRounded) {
  // h = 1 + 2^-8 lies half way between two bfloat16 and is kept as 1. gelu(1) = 0.84119 and
  // gelu(1.00390625) = 0.84542 round to 0.83984375 and 0.84375, where they are 2^-8 apart.
  on_every_device([](Device& device) {
    const LinearForwardKernel k{
        .dtype = Dtype::bfloat16, .has_gelu = true, .rows = 1, .in = 2, .out = 1};
    GuardedCall call(k);
    call.with(std::vector<Bfloat16>{to_bfloat16(1.0f), to_bfloat16(0.00390625f)});
    call.with(std::vector<Bfloat16>(2, to_bfloat16(1.0f))).absent().absent();
    call.with(std::vector<Bfloat16>(1)).with(std::vector<Bfloat16>(1)).run(device);
    if (to_float(call.result<Bfloat16>(4)[0]) == 0.83984375f) {
      // The library has no such algorithm, and the device says so by two kernels.
      EXPECT_NE(device.description().find("cuBLASLt"), std::string::npos);
    } else {
      EXPECT_EQ(to_float(call.result<Bfloat16>(4)[0]), 0.84375f);
    }
    EXPECT_EQ(to_float(call.result<Bfloat16>(5)[0]), 1.0f);
  });
}

/// [rows, columns] with `gap` more elements behind every row.
std::vector<float> with_gaps(const std::vector<float>& values, std::int64_t columns,
                             std::int64_t gap) {
  std::vector<float> spread;
  for (std::size_t i = 0; i < values.size(); ++i) {
    spread.push_back(values[i]);
    if ((static_cast<std::int64_t>(i) + 1) % columns == 0)
      spread.insert(spread.end(), static_cast<std::size_t>(gap), 1e30f);
  }
  return spread;
}

/// Operand `output` of the call that `fill` gives its operands, with `gap` in the rows of y.
std::vector<float> result_of(Device& device, const Kernel& k, std::size_t output, std::int64_t gap,
                             const std::function<void(GuardedCall&, std::int64_t)>& fill) {
  GuardedCall call(k);
  fill(call, gap);
  call.run(device);
  return call.result(output);
}

struct Operands {
  std::vector<float> x, y, weight, bias;
};
template <LinearKernel K>
Operands operands_of(const K& k) {
  return {numbers(k.rows * k.in, 1), numbers(k.rows * k.out, 2), numbers(k.in * k.out, 3),
          numbers(k.out, 4)};
}

constexpr std::int64_t gap = 3;

TEST(LinearWithGaps, ForwardIsTheSameAndLeavesThemAlone) {
  for_each_layout<LinearForwardKernel>([](Device& device, LinearForwardKernel k) {
    k.has_bias = true;
    const Operands o = operands_of(k);
    const auto fill = [&](GuardedCall& call, std::int64_t gaps) {
      call.with(o.x).with(o.weight).with(o.bias).absent().with(with_gaps(o.y, k.out, gaps));
    };
    const auto expected = with_gaps(result_of(device, k, 4, 0, fill), k.out, gap);
    k.out_stride = k.out + gap;
    expect_close(result_of(device, k, 4, gap, fill), widened(expected), tolerance, "y");
  });
}

TEST(LinearWithGaps, InputGradientIsTheSame) {
  for_each_layout<LinearBackwardInputKernel>([](Device& device, LinearBackwardInputKernel k) {
    const Operands o = operands_of(k);
    const auto fill = [&](GuardedCall& call, std::int64_t gaps) {
      call.with(with_gaps(o.y, k.out, gaps)).with(o.weight).with(o.x);
    };
    const auto expected = result_of(device, k, 2, 0, fill);
    k.out_stride = k.out + gap;
    expect_close(result_of(device, k, 2, gap, fill), widened(expected), tolerance, "dx");
  });
}

TEST(LinearWithGaps, WeightGradientIsTheSame) {
  for_each_layout<LinearBackwardWeightKernel>([](Device& device, LinearBackwardWeightKernel k) {
    k.has_bias = true;
    const Operands o = operands_of(k);
    const auto fill = [&](GuardedCall& call, std::int64_t gaps) {
      call.with(o.x).with(with_gaps(o.y, k.out, gaps)).with(o.weight).with(o.bias);
    };
    const auto expected = result_of(device, k, 2, 0, fill);
    k.out_stride = k.out + gap;
    expect_close(result_of(device, k, 2, gap, fill), widened(expected), tolerance, "dweight");
  });
}

}  // namespace
}  // namespace shardscope::test
