// Gradient norm, clipping, AdamW and SGD over slices of parameters.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

/// Two parameters inside one shard, a gap between them: 600 elements (3 pieces) with decay, 300 (2
/// pieces) without.
std::vector<Slice> two_slices() {
  return {{.parameter = {0},
           .offset = 0,
           .elements = 600,
           .parameter_offset = 0,
           .piece = 0,
           .decay = true},
          {.parameter = {1},
           .offset = 768,
           .elements = 300,
           .parameter_offset = 0,
           .piece = 5,
           .decay = false}};
}
constexpr std::int64_t storage = 1068;

bool inside(std::int64_t i) { return i < 600 || i >= 768; }

constexpr std::int64_t elements = 900;  ///< of both slices

TEST(SumOfSquares, FillsThePieceOfEachSlice) {
  on_every_device([](Device& device) {
    const auto g = numbers(storage, 1);
    GuardedCall call(SumOfSquaresKernel{.elements = elements});
    call.with(g).with(std::vector<double>(7, -1.0)).with_slices(two_slices()).run(device);
    const auto sum = [&](std::int64_t begin, std::int64_t end) {
      double total = 0;
      for (std::int64_t i = begin; i < end; ++i) total += double{g[i]} * g[i];
      return total;
    };
    const auto pieces = call.result<double>(1);
    const std::vector<double> expected{sum(0, 256), sum(256, 512),  sum(512, 600),  -1,
                                       -1,          sum(768, 1024), sum(1024, 1068)};
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(pieces[i], expected[i], 1e-12 * std::abs(expected[i])) << i;
  });
}

TEST(SumOfSquares, DoesNotOverflowInSinglePrecision) {
  on_every_device([](Device& device) {
    GuardedCall call(SumOfSquaresKernel{.elements = elements});
    call.with(std::vector<float>(storage, 1e30f))
        .with(std::vector<double>(7))
        .with_slices(two_slices());
    call.run(device);
    EXPECT_NEAR(call.result<double>(1)[0], 256e60, 1e57);
  });
}

// Norm 5 from pieces 9 and 16: a limit of 2 gives 2 / (5 + 1e-6).
std::vector<double> clip_of(Device& device, bool has_clip, double clip,
                            const std::vector<double>& pieces) {
  GuardedCall call(ClipCoefficientKernel{.has_clip = has_clip, .pieces = 2, .clip = clip});
  call.with(pieces).with(std::vector<double>(2));
  call.with_slices({{.parameter = {0},
                     .offset = 0,
                     .elements = 300,
                     .parameter_offset = 0,
                     .piece = 0,
                     .decay = false}});
  call.run(device);
  return call.result<double>(1);
}

TEST(ClipCoefficient, IsTheLimitOverTheNormButAtMostOne) {
  on_every_device([](Device& device) {
    EXPECT_EQ(clip_of(device, true, 2.0, {9, 16}), (std::vector<double>{5, 2 / (5 + 1e-6)}));
    EXPECT_EQ(clip_of(device, true, 7.0, {9, 16}), (std::vector<double>{5, 1}));
    EXPECT_EQ(clip_of(device, false, 0.0, {9, 16}), (std::vector<double>{5, 1}));
    EXPECT_EQ(clip_of(device, true, 1.0, {0, 0}), (std::vector<double>{0, 1}));
  });
}

TEST(ClipCoefficient, ANormThatIsNotANumberShows) {
  on_every_device([](Device& device) {
    const auto clip = clip_of(device, true, 1.0, {1, std::numeric_limits<double>::quiet_NaN()});
    EXPECT_TRUE(std::isnan(clip[0]));
    EXPECT_TRUE(std::isnan(clip[1]));
  });
}

// Step 3 of AdamW as Loshchilov and Hutter write it, with the gradient halved by clipping. The
// learning rate of 0.01 is a parameter group's quarter of the step's.
TEST(AdamW, DecaysMovesAndCorrectsTheBias) {
  on_every_device([](Device& device) {
    const AdamWKernel k{.elements = elements,
                        .epsilon = 1e-8,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .weight_decay = 0.1,
                        .rate = 0.25};
    const auto g = numbers(storage, 1), p = numbers(storage, 2), m = numbers(storage, 3, 0.1);
    auto v = numbers(storage, 4, 0.1);
    for (float& x : v) x *= x;
    GuardedCall call(k);
    call.with(std::vector<double>{2, 0.5}).with(g).with(p).with(m).with(v);
    call.with_slices(two_slices(), {.learning_rate = 0.04, .step = 3}).run(device);
    auto ep = widened(p), em = widened(m), ev = widened(v);
    for (std::int64_t i = 0; i < storage; ++i) {
      if (!inside(i)) continue;
      const double gradient = 0.5 * g[i];
      em[i] = 0.9 * m[i] + 0.1 * gradient;
      ev[i] = 0.95 * v[i] + 0.05 * gradient * gradient;
      if (i < 600) ep[i] -= 0.01 * 0.1 * p[i];
      ep[i] -= 0.01 * (em[i] / (1 - std::pow(0.9, 3))) /
               (std::sqrt(ev[i] / (1 - std::pow(0.95, 3))) + 1e-8);
    }
    expect_close(call.result(2), ep, 3e-7, "p");
    expect_close(call.result(3), em, 1e-7, "m");
    expect_close(call.result(4), ev, 1e-7, "v");
  });
}

/// A gradient norm of which nothing can be said.
constexpr double bad_norms[] = {std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity()};

TEST(AdamW, ChangesNothingWhereTheNormIsNotFinite) {
  for (const double norm : bad_norms)
    on_every_device([&](Device& device) {
      const auto g = numbers(storage, 1), p = numbers(storage, 2), m = numbers(storage, 3, 0.1),
                 v = numbers(storage, 4, 0.1);
      GuardedCall call(AdamWKernel{
          .elements = elements, .epsilon = 1e-8, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1});
      call.with(std::vector<double>{norm, 0.5}).with(g).with(p).with(m).with(v);
      call.with_slices(two_slices(), {.learning_rate = 0.01, .step = 3}).run(device);
      expect_close(call.result(2), widened(p), 0, "p");
      expect_close(call.result(3), widened(m), 0, "m");
      expect_close(call.result(4), widened(v), 0, "v");
    });
}

TEST(Sgd, ChangesNothingWhereTheNormIsNotFinite) {
  for (const double norm : bad_norms)
    on_every_device([&](Device& device) {
      const auto g = numbers(storage, 1), p = numbers(storage, 2), momentum = numbers(storage, 3);
      GuardedCall call(SgdKernel{.elements = elements, .momentum = 0.9, .weight_decay = 0.1});
      call.with(std::vector<double>{norm, 0.5}).with(g).with(p).with(momentum);
      call.with_slices(two_slices(), {.learning_rate = 0.05, .step = 2}).run(device);
      expect_close(call.result(2), widened(p), 0, "p");
      expect_close(call.result(3), widened(momentum), 0, "momentum");
    });
}

std::vector<double> sgd_expected(const std::vector<float>& p, const std::vector<float>& g,
                                 const std::vector<float>& momentum, bool first, bool nesterov) {
  auto expected = widened(p);
  for (std::int64_t i = 0; i < storage; ++i) {
    if (!inside(i)) continue;
    const double gradient = g[i] + (i < 600 ? 0.1 * p[i] : 0.0);
    const double buffer = first ? gradient : 0.9 * momentum[i] + gradient;
    expected[i] -= 0.05 * (nesterov ? gradient + 0.9 * buffer : buffer);
  }
  return expected;
}

TEST(Sgd, MomentumStartsAsTheFirstGradient) {
  for (const std::int64_t step : {1, 2})
    for (const bool nesterov : {false, true})
      on_every_device([&](Device& device) {
        // 0.05 is a parameter group's half of the step's learning rate.
        const SgdKernel k{.nesterov = nesterov,
                          .elements = elements,
                          .momentum = 0.9,
                          .weight_decay = 0.1,
                          .rate = 0.5};
        const auto g = numbers(storage, 1), p = numbers(storage, 2), momentum = numbers(storage, 3);
        GuardedCall call(k);
        call.absent().with(g).with(p).with(momentum);
        call.with_slices(two_slices(), {.learning_rate = 0.1, .step = step}).run(device);
        expect_close(call.result(2), sgd_expected(p, g, momentum, step == 1, nesterov), 3e-7, "p");
      });
}

TEST(Sgd, WithoutMomentumFollowsTheGradient) {
  on_every_device([](Device& device) {
    const SgdKernel k{.elements = elements};
    const auto g = numbers(storage, 1), p = numbers(storage, 2);
    GuardedCall call(k);
    call.with(std::vector<double>{4, 0.25}).with(g).with(p).absent();
    call.with_slices(two_slices(), {.learning_rate = 0.5, .step = 1}).run(device);
    auto expected = widened(p);
    for (std::int64_t i = 0; i < storage; ++i)
      if (inside(i)) expected[i] -= 0.5 * 0.25 * g[i];
    expect_close(call.result(2), expected, 1e-7, "p");
  });
}

// Where a parameter is cut does not change a bit of it: the sharding strategies rely on this.
TEST(AdamW, ACutIntoSlicesChangesNoBit) {
  on_every_device([](Device& device) {
    const AdamWKernel k{.elements = elements, .epsilon = 1e-8, .beta1 = 0.9, .beta2 = 0.95};
    const auto run = [&](const std::vector<Slice>& slices) {
      GuardedCall call(k);
      call.absent()
          .with(numbers(storage, 1))
          .with(numbers(storage, 2))
          .with(numbers(storage, 3, 0.1));
      call.with(std::vector<float>(storage, 0.01f))
          .with_slices(slices, {.learning_rate = 0.01, .step = 2});
      call.run(device);
      return call.result(2);
    };
    const auto slice = [](std::int64_t begin, std::int64_t end) {
      return Slice{.parameter = {0},
                   .offset = begin,
                   .elements = end - begin,
                   .parameter_offset = begin,
                   .piece = begin / 256,
                   .decay = false};
    };
    EXPECT_EQ(run({slice(0, 1000)}), run({slice(0, 256), slice(256, 768), slice(768, 1000)}));
  });
}

}  // namespace
}  // namespace shardscope::test
