// Softmax and cross-entropy in one kernel: loss added in double precision, logits replaced by their
// gradient.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

struct Expected {
  double loss = 0;
  std::vector<double> gradient;
};

Expected reference(const CrossEntropyKernel& k, const std::vector<std::int32_t>& targets,
                   const std::vector<float>& logits) {
  Expected out{0, std::vector<double>(logits.size())};
  double counted = 0;
  for (const std::int32_t target : targets) counted += target != -100;
  for (std::int64_t r = 0; r < k.rows; ++r) {
    if (targets[r] == -100) continue;
    const float* row = logits.data() + r * k.classes;
    double largest = row[0], sum = 0;
    for (std::int64_t i = 0; i < k.classes; ++i) largest = std::max(largest, double{row[i]});
    for (std::int64_t i = 0; i < k.classes; ++i) sum += std::exp(row[i] - largest);
    out.loss += k.scale * (std::log(sum) + largest - row[targets[r]]) / counted;
    for (std::int64_t i = 0; i < k.classes; ++i)
      out.gradient[r * k.classes + i] =
          k.scale * (std::exp(row[i] - largest) / sum - (i == targets[r])) / counted;
  }
  return out;
}

CrossEntropyKernel kernel_of(std::int64_t rows, std::int64_t classes, double scale) {
  return {.rows = rows, .classes = classes, .scale = scale};
}

std::vector<std::int32_t> targets_of(const CrossEntropyKernel& k) {
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < k.rows; ++r)
    targets.push_back(static_cast<std::int32_t>(r * 7919 % k.classes));
  return targets;
}

TEST(CrossEntropy, AddsTheScaledMeanLossAndLeavesTheGradient) {
  for (const std::int64_t rows : {1, 3, 37})
    for (const std::int64_t classes : {1, 7, 257, 1500})
      on_every_device([&](Device& device) {
        const CrossEntropyKernel k = kernel_of(rows, classes, 0.25);
        const auto targets = targets_of(k);
        const auto logits = numbers(rows * classes, 1, 3.0);
        const Expected expected = reference(k, targets, logits);
        GuardedCall call(k);
        call.with(targets).with(logits).with(std::vector<double>{100.0}).absent().run(device);
        EXPECT_NEAR(call.result<double>(2)[0], 100.0 + expected.loss, 1e-6);
        expect_close(call.result(1), expected.gradient, 2e-7, "dlogits");
      });
}

TEST(CrossEntropy, IgnoredRowsCountNeitherInTheLossNorInTheMean) {
  on_every_device([](Device& device) {
    const CrossEntropyKernel k = kernel_of(5, 11, 1.0);
    auto targets = targets_of(k);
    targets[0] = targets[3] = -100;
    const auto logits = numbers(55, 1);
    const Expected expected = reference(k, targets, logits);
    GuardedCall call(k);
    call.with(targets).with(logits).with(std::vector<double>{0.0}).absent().run(device);
    EXPECT_NEAR(call.result<double>(2)[0], expected.loss, 1e-6);
    expect_close(call.result(1), expected.gradient, 2e-7, "dlogits");
  });
}

TEST(CrossEntropy, AllIgnoredIsNotANumberWithGradientZero) {
  on_every_device([](Device& device) {
    const CrossEntropyKernel k = kernel_of(3, 10, 1.0);
    GuardedCall call(k);
    call.with(std::vector<std::int32_t>(3, -100))
        .with(numbers(30, 1))
        .with(std::vector<double>{0.0})
        .absent();
    call.run(device);
    EXPECT_TRUE(std::isnan(call.result<double>(2)[0]));
    EXPECT_EQ(call.result(1), std::vector<float>(30, 0.0f));
  });
}

TEST(CrossEntropy, AChunkIsDividedByTheRowsOfAllChunks) {
  // Rows 3 and 4 of five, of which row 3 and one before it are ignored: the mean is over 3 rows.
  // Logits and their gradients lie 16 apart, what is between them stays.
  on_every_device([](Device& device) {
    CrossEntropyKernel k = kernel_of(5, 11, 0.5);
    auto targets = targets_of(k);
    targets[0] = targets[3] = -100;
    const auto logits = numbers(55, 1);
    const Expected expected = reference(k, targets, logits);
    GuardedCall counting(CountTargetsKernel{.rows = 5});
    counting.with(targets).with(std::vector<double>{7.0}).run(device);
    EXPECT_EQ(counting.result<double>(1)[0], 3.0);

    k.rows = 2;
    k.has_count = true;
    k.logits_stride = 16;
    std::vector<float> chunk(32, 1e30f), wanted(32, 1e30f);
    for (std::size_t row = 0; row < 2; ++row)
      for (std::size_t i = 0; i < 11; ++i) {
        chunk[16 * row + i] = logits[33 + 11 * row + i];
        wanted[16 * row + i] = static_cast<float>(expected.gradient[33 + 11 * row + i]);
      }
    GuardedCall call(k);
    call.with(std::vector<std::int32_t>{targets[3], targets[4]})
        .with(chunk)
        .with(std::vector<double>{1.0})
        .with(std::vector<double>{3.0})
        .run(device);
    expect_close(call.result(1), widened(wanted), 2e-7, "dlogits");
    const CrossEntropyKernel alone = kernel_of(1, 11, 0.5);
    const Expected of_row = reference(alone, {targets[4]}, {logits.begin() + 44, logits.end()});
    EXPECT_NEAR(call.result<double>(2)[0], 1.0 + of_row.loss / 3, 1e-6);
  });
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  on_every_device([](Device& device) {
    const CrossEntropyKernel k = kernel_of(4, 40, 1.0);
    const auto targets = targets_of(k);
    const auto logits = numbers(160, 1, 1e4);
    GuardedCall call(k);
    call.with(targets).with(logits).with(std::vector<double>{0.0}).absent().run(device);
    const double expected = reference(k, targets, logits).loss;
    EXPECT_NEAR(call.result<double>(2)[0], expected, 1e-9 * expected);
  });
}

TEST(CrossEntropy, DoesNotHideNaN) {
  for (const std::size_t at : {0, 3, 36})
    on_every_device([&](Device& device) {
      const CrossEntropyKernel k = kernel_of(1, 37, 1.0);
      auto logits = numbers(37, 1);
      logits[at] = std::numeric_limits<float>::quiet_NaN();
      GuardedCall call(k);
      call.with(std::vector<std::int32_t>{5})
          .with(logits)
          .with(std::vector<double>{0.0})
          .absent()
          .run(device);
      EXPECT_TRUE(std::isnan(call.result<double>(2)[0]));
      EXPECT_TRUE(std::isnan(call.result(1)[20]));
    });
}

}  // namespace
}  // namespace shardscope::test
