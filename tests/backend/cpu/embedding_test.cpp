// Token and position embeddings: rows gathered, gradients scattered.
#include <gtest/gtest.h>

#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

constexpr std::int64_t batch = 3, length = 13, vocabulary = 23, positions = 20;
/// Of which 8 divides all but the first; 2056 is more than a block has threads for at once.
constexpr std::int64_t widths[] = {19, 24, 2056};

template <KernelStruct K>
K kernel_of(std::int64_t width) {
  return {.rows = batch * length,
          .width = width,
          .vocabulary = vocabulary,
          .batch = batch,
          .length = length,
          .positions = positions};
}

/// Tokens that repeat; the last three words of the vocabulary never occur.
std::vector<std::int32_t> some_tokens() {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < batch * length; ++i) tokens.push_back(i * i % 20);
  return tokens;
}

TEST(EmbeddingForward, AddsTokenAndPositionRows) {
  for (const std::int64_t width : widths)
    for (const bool with_positions : {false, true})
      on_every_device([&](Device& device) {
        const auto tokens = some_tokens();
        const auto wte = numbers(vocabulary * width, 1), wpe = numbers(positions * width, 2);
        auto kernel = kernel_of<EmbeddingForwardKernel>(width);
        if (!with_positions) kernel.positions = 0;
        GuardedCall call(kernel);
        call.with(tokens).with(wte);
        with_positions ? call.with(wpe) : call.absent();
        call.with(std::vector<float>(batch * length * width)).run(device);
        std::vector<double> expected;
        for (std::int64_t r = 0; r < batch * length; ++r)
          for (std::int64_t i = 0; i < width; ++i)
            expected.push_back(wte[tokens[r] * width + i] +
                               (with_positions ? wpe[r % length * width + i] : 0.0f));
        expect_close(call.result(3), expected, 0, "x");
      });
}

void check_backward(Device& device, bool accumulate, std::int64_t width) {
  const auto tokens = some_tokens();
  const auto dx = numbers(batch * length * width, 1);
  const auto dwte = numbers(vocabulary * width, 2), dwpe = numbers(positions * width, 3);
  auto kernel = kernel_of<EmbeddingBackwardKernel>(width);
  kernel.accumulate = accumulate;
  GuardedCall call(kernel);
  call.with(tokens).with(dx).with(dwte).with(dwpe).run(device);
  std::vector<double> token_rows(dwte.size()), position_rows(dwpe.size());
  if (accumulate) token_rows = widened(dwte), position_rows = widened(dwpe);
  for (std::int64_t r = 0; r < batch * length; ++r)
    for (std::int64_t i = 0; i < width; ++i) {
      token_rows[tokens[r] * width + i] += dx[r * width + i];
      position_rows[r % length * width + i] += dx[r * width + i];
    }
  expect_close(call.result(2), token_rows, 1e-6, "dwte");
  expect_close(call.result(3), position_rows, 1e-6, "dwpe");
}

TEST(EmbeddingBackward, RepeatedTokensAddUpAndAbsentRowsAreZero) {
  for (const std::int64_t width : widths)
    on_every_device([&](Device& device) { check_backward(device, false, width); });
}

TEST(EmbeddingBackward, AddsWhenAccumulating) {
  for (const std::int64_t width : widths)
    on_every_device([&](Device& device) { check_backward(device, true, width); });
}

TEST(EmbeddingBackward, LeavesOutAFrozenTable) {
  constexpr std::int64_t width = 19;
  on_every_device([](Device& device) {
    GuardedCall call(kernel_of<EmbeddingBackwardKernel>(width));
    call.with(some_tokens())
        .with(numbers(batch * length * width, 1))
        .absent()
        .with(std::vector<float>(positions * width, 1.0f))
        .run(device);
    EXPECT_EQ(call.result(3)[length * width], 0.0f);
  });
}

}  // namespace
}  // namespace shardscope::test
