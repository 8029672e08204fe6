// Layer norm and root-mean-square norm against their formulas in double precision.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

constexpr double epsilon = 1e-5;

template <KernelStruct K>
K kernel_of(NormKind norm, std::int64_t rows, std::int64_t width) {
  K kernel{.norm = norm, .has_bias = norm == NormKind::layer_norm, .rows = rows, .width = width};
  if constexpr (requires { kernel.epsilon; }) kernel.epsilon = epsilon;
  return kernel;
}

struct Row {
  double mean = 0, rstd = 0;
};
template <KernelStruct K>
Row statistics(const K& k, const std::vector<float>& x, std::int64_t row) {
  Row s;
  double squares = 0;
  for (std::int64_t i = 0; i < k.width; ++i)
    s.mean += x[row * k.width + i] / static_cast<double>(k.width);
  if (k.norm == NormKind::rms_norm) s.mean = 0;
  for (std::int64_t i = 0; i < k.width; ++i) squares += std::pow(x[row * k.width + i] - s.mean, 2);
  s.rstd = 1 / std::sqrt(squares / static_cast<double>(k.width) + epsilon);
  return s;
}

struct Forward {
  std::vector<double> y, mean, rstd;
};
template <KernelStruct K>
Forward forward(const K& k, const std::vector<float>& x, const std::vector<float>& w,
                const std::vector<float>& b) {
  Forward out;
  for (std::int64_t r = 0; r < k.rows; ++r) {
    const Row s = statistics(k, x, r);
    out.mean.push_back(s.mean);
    out.rstd.push_back(s.rstd);
    for (std::int64_t i = 0; i < k.width; ++i)
      out.y.push_back((x[r * k.width + i] - s.mean) * s.rstd * w[i] + (b.empty() ? 0.0 : b[i]));
  }
  return out;
}

struct Gradients {
  std::vector<double> dx, dweight, dbias;
};
Gradients backward(const NormBackwardKernel& k, const std::vector<float>& dy,
                   const std::vector<float>& x, const std::vector<float>& w) {
  Gradients out{std::vector<double>(x.size()), std::vector<double>(k.width),
                std::vector<double>(k.width)};
  for (std::int64_t r = 0; r < k.rows; ++r) {
    const Row s = statistics(k, x, r);
    const auto normal = [&](std::int64_t i) { return (x[r * k.width + i] - s.mean) * s.rstd; };
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < k.width; ++i) {
      const double g = dy[r * k.width + i];
      out.dweight[i] += g * normal(i);
      out.dbias[i] += g;
      sum += g * w[i] / static_cast<double>(k.width);
      product += g * w[i] * normal(i) / static_cast<double>(k.width);
    }
    if (k.norm == NormKind::rms_norm) sum = 0;
    for (std::int64_t i = 0; i < k.width; ++i)
      out.dx[r * k.width + i] =
          s.rstd * (double{dy[r * k.width + i]} * w[i] - sum - normal(i) * product);
  }
  return out;
}

template <KernelStruct K, class Body>
void for_each_shape(const Body& body) {
  for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm})
    for (const std::int64_t rows : {1, 3, 37, 1100})
      for (const std::int64_t width : {7, 37, 64, 520, 8200}) {
        if (width > 64 && rows != 3) continue;
        on_every_device([&](Device& device) {
          SCOPED_TRACE(testing::Message() << rows << " x " << width);
          body(device, kernel_of<K>(norm, rows, width));
        });
      }
}

std::vector<float> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

TEST(NormForward, NormalisesScalesAndShifts) {
  for_each_shape<NormForwardKernel>([](Device& device, const NormForwardKernel& k) {
    const auto x = numbers(k.rows * k.width, 1), w = numbers(k.width, 2), b = numbers(k.width, 3);
    const bool layer = k.norm == NormKind::layer_norm;
    GuardedCall call(k);
    call.with(x).with(w);
    layer ? call.with(b) : call.absent();
    call.with(std::vector<float>(x.size()));
    layer ? call.with(std::vector<float>(k.rows)) : call.absent();
    call.with(std::vector<float>(k.rows)).run(device);
    const Forward expected = forward(k, x, w, layer ? b : std::vector<float>{});
    expect_close(call.result(3), expected.y, 3e-6, "y");
    if (layer) expect_close(call.result(4), expected.mean, 1e-6, "mean");
    expect_close(call.result(5), expected.rstd, 1e-6, "rstd");
  });
}

// The variance must be taken around the mean, not as a difference of large squares: at 1000 with a
// spread of 1 the latter has no correct digit in fp32.
TEST(NormForward, KeepsItsDigitsFarFromZero) {
  on_every_device([](Device& device) {
    const auto k = kernel_of<NormForwardKernel>(NormKind::layer_norm, 2, 50);
    auto x = numbers(100, 1);
    for (float& value : x) value += 1000;
    const std::vector<float> ones(50, 1), zeros(50, 0);
    GuardedCall call(k);
    call.with(x).with(ones).with(zeros).with(x).with(zeros).with(zeros).run(device);
    expect_close(call.result(3), forward(k, x, ones, {}).y, 5e-4, "y");
  });
}

TEST(NormForward, DoesNotHideNaN) {
  on_every_device([](Device& device) {
    const auto k = kernel_of<NormForwardKernel>(NormKind::rms_norm, 1, 5);
    std::vector<float> x(5, 1.0f), out(5), rstd(1);
    x[4] = std::numeric_limits<float>::quiet_NaN();
    GuardedCall call(k);
    call.with(x)
        .with(std::vector<float>(5, 1.0f))
        .absent()
        .with(out)
        .absent()
        .with(rstd)
        .run(device);
    for (const float y : call.result(3)) EXPECT_TRUE(std::isnan(y));
  });
}

void check_backward(Device& device, NormBackwardKernel k, bool accumulate) {
  k.accumulate = k.accumulate_input = accumulate;
  const bool layer = k.norm == NormKind::layer_norm;
  const auto dy = numbers(k.rows * k.width, 1), x = numbers(k.rows * k.width, 2),
             w = numbers(k.width, 3);
  const auto dx = numbers(k.rows * k.width, 4), dw = numbers(k.width, 5), db = numbers(k.width, 6);
  const Forward f = forward(k, x, w, {});
  GuardedCall call(k);
  call.with(dy).with(x).with(w);
  layer ? call.with(narrowed(f.mean)) : call.absent();
  call.with(narrowed(f.rstd)).with(dx).with(dw);
  layer ? call.with(db) : call.absent();
  call.run(device);
  Gradients expected = backward(k, dy, x, w);
  for (std::size_t i = 0; accumulate && i < dx.size(); ++i) expected.dx[i] += dx[i];
  for (std::size_t i = 0; accumulate && i < dw.size(); ++i) expected.dweight[i] += dw[i];
  for (std::size_t i = 0; accumulate && i < db.size(); ++i) expected.dbias[i] += db[i];
  expect_close(call.result(5), expected.dx, 3e-6, "dx");
  expect_close(call.result(6), expected.dweight, 3e-5, "dweight");
  if (layer) expect_close(call.result(7), expected.dbias, 3e-5, "dbias");
}

TEST(NormBackward, MakesEveryGradient) {
  for_each_shape<NormBackwardKernel>(
      [](Device& device, const NormBackwardKernel& k) { check_backward(device, k, false); });
}

TEST(NormBackward, AddsWhenAccumulating) {
  for_each_shape<NormBackwardKernel>(
      [](Device& device, const NormBackwardKernel& k) { check_backward(device, k, true); });
}

TEST(NormBackward, LeavesOutFrozenParametersAndInput) {
  on_every_device([](Device& device) {
    auto k = kernel_of<NormBackwardKernel>(NormKind::layer_norm, 5, 20);
    const auto dy = numbers(100, 1), x = numbers(100, 2), w = numbers(20, 3);
    const Forward f = forward(k, x, w, {});
    const Gradients expected = backward(k, dy, x, w);
    k.has_bias = k.has_weight_gradient = false;
    GuardedCall input_only(k);
    input_only.with(dy)
        .with(x)
        .with(w)
        .with(narrowed(f.mean))
        .with(narrowed(f.rstd))
        .with(std::vector<float>(100))
        .absent()
        .absent()
        .run(device);
    expect_close(input_only.result(5), expected.dx, 3e-6, "dx");
    k.has_weight_gradient = true;
    GuardedCall weight_only(k);
    weight_only.with(dy)
        .with(x)
        .with(w)
        .with(narrowed(f.mean))
        .with(narrowed(f.rstd))
        .absent()
        .with(std::vector<float>(20))
        .absent()
        .run(device);
    expect_close(weight_only.result(6), expected.dweight, 3e-6, "dweight");
  });
}

}  // namespace
}  // namespace shardscope::test
