// GELU(tanh), SwiGLU, add and fill_zero.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

constexpr double root_two_over_pi = 0.7978845608028654;
double gelu(double h) {
  return 0.5 * h * (1 + std::tanh(root_two_over_pi * (h + 0.044715 * h * h * h)));
}
double gelu_slope(double h) {
  const double t = std::tanh(root_two_over_pi * (h + 0.044715 * h * h * h));
  return 0.5 * (1 + t) + 0.5 * h * (1 - t * t) * root_two_over_pi * (1 + 3 * 0.044715 * h * h);
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// From -12 to 12 in small steps, and values where exponentials overflow or vanish.
std::vector<float> telling_values() {
  std::vector<float> values{0.0f, -0.0f, 1e-20f, -1e-20f, 30, -30, 89, -89, 104, -104, 1000, -1000};
  for (int i = -1200; i <= 1200; ++i) values.push_back(0.01f * static_cast<float>(i));
  return values;
}

std::vector<double> mapped(const std::vector<float>& x, const std::function<double(double)>& f) {
  std::vector<double> out;
  for (const float value : x) out.push_back(f(value));
  return out;
}

TEST(Gelu, ForwardIsExactToAFewUnitsInTheLastPlace) {
  const auto h = telling_values();
  const auto n = static_cast<std::int64_t>(h.size());
  on_every_device([&](Device& device) {
    GuardedCall call(GeluForwardKernel{{.rows = 1, .features = n}});
    call.with(h).with(std::vector<float>(h.size())).run(device);
    expect_close(call.result(1), mapped(h, gelu), 4e-7, "y");
  });
}

TEST(Gelu, BackwardMultipliesByTheSlope) {
  const auto h = telling_values();
  const auto n = static_cast<std::int64_t>(h.size());
  on_every_device([&](Device& device) {
    GuardedCall call(GeluBackwardKernel{{.rows = 1, .features = n}});
    call.with(h).with(std::vector<float>(h.size(), 2.0f)).run(device);
    expect_close(call.result(1), mapped(h, [](double x) { return 2 * gelu_slope(x); }), 1e-6, "dh");
  });
}

TEST(Swiglu, ForwardIsGateTimesItsSigmoidTimesUp) {
  const auto gate = telling_values();
  const auto n = static_cast<std::int64_t>(gate.size());
  on_every_device([&](Device& device) {
    GuardedCall call(SwigluForwardKernel{{.rows = 1, .features = n}});
    call.with(gate).with(std::vector<float>(gate.size(), -3.0f)).with(gate).run(device);
    expect_close(call.result(2), mapped(gate, [](double g) { return -3 * g * sigmoid(g); }), 4e-7,
                 "y");
  });
}

TEST(Swiglu, BackwardReplacesGateAndUpByTheirGradients) {
  const auto gate = telling_values();
  const auto n = static_cast<std::int64_t>(gate.size());
  on_every_device([&](Device& device) {
    GuardedCall call(SwigluBackwardKernel{{.rows = 1, .features = n}});
    call.with(std::vector<float>(gate.size(), 2.0f))
        .with(gate)
        .with(std::vector<float>(gate.size(), 3.0f));
    call.run(device);
    const auto dgate = [](double g) { return 6 * sigmoid(g) * (1 + g * sigmoid(-g)); };
    expect_close(call.result(1), mapped(gate, dgate), 1e-6, "dgate");
    expect_close(call.result(2), mapped(gate, [](double g) { return 2 * g * sigmoid(g); }), 4e-7,
                 "dup");
  });
}

TEST(Activations, DoNotHideNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  on_every_device([&](Device& device) {
    GuardedCall forward(GeluForwardKernel{{.rows = 1, .features = 1}});
    forward.with(std::vector<float>{nan}).with(std::vector<float>{0}).run(device);
    EXPECT_TRUE(std::isnan(forward.result(1)[0]));
    GuardedCall backward(GeluBackwardKernel{{.rows = 1, .features = 1}});
    backward.with(std::vector<float>{1}).with(std::vector<float>{nan}).run(device);
    EXPECT_TRUE(std::isnan(backward.result(1)[0]));
    GuardedCall gated(SwigluForwardKernel{{.rows = 1, .features = 1}});
    gated.with(std::vector<float>{nan})
        .with(std::vector<float>{1})
        .with(std::vector<float>{0})
        .run(device);
    EXPECT_TRUE(std::isnan(gated.result(2)[0]));
  });
}

TEST(Add, AddsTheFirstToTheSecond) {
  on_every_device([](Device& device) {
    const auto a = numbers(131, 1), b = numbers(131, 2);
    std::vector<double> expected = widened(a);
    for (std::size_t i = 0; i < b.size(); ++i) expected[i] += b[i];
    GuardedCall call(AddKernel{.elements = 131});
    call.with(a).with(b).run(device);
    expect_close(call.result(1), expected, 1e-7, "b");
  });
}

TEST(FillZero, LeavesNothingBehind) {
  on_every_device([](Device& device) {
    GuardedCall call(FillZeroKernel{.elements = 131});
    call.with(std::vector<float>(131, std::numeric_limits<float>::quiet_NaN())).run(device);
    EXPECT_EQ(call.result(0), std::vector<float>(131, 0.0f));
  });
}

}  // namespace
}  // namespace shardscope::test
