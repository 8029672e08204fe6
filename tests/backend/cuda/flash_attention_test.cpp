// Attention in bfloat16: on tensor cores where the shape fits, against the whole softmax in double
// precision.
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cuda/kernels/attention.h"
#include "tests/backend/cpu/attention_reference.h"
#include "tests/backend/cpu/guarded_call.h"
#include "tests/backend/cuda/emulated_stream.h"

namespace shardscope::test {
namespace {

using Halves = std::vector<Bfloat16>;

Halves halves_of(const std::vector<float>& values) {
  Halves halves;
  for (const float value : values) halves.push_back(to_bfloat16(value));
  return halves;
}
std::vector<float> floats_of(const Halves& halves) {
  std::vector<float> values;
  for (const Bfloat16 half : halves) values.push_back(to_float(half));
  return values;
}

// Every compiled width and one that is filled up; lengths on both sides of the tiles of 32, 64 and
// 128 rows; grouped and multi-query heads; rows with gaps; and one that no tensor core takes.
const std::vector<AttentionCase> cases{
    {1, 1, 1, 1, 64, 0},    {1, 2, 1, 63, 64, 0},  {2, 2, 2, 64, 64, 8},  {1, 1, 1, 65, 64, 0},
    {1, 4, 2, 129, 64, 16}, {1, 1, 1, 200, 64, 0}, {1, 2, 2, 70, 80, 0},  {1, 1, 1, 130, 80, 0},
    {1, 3, 1, 97, 96, 8},   {1, 1, 1, 140, 96, 0}, {1, 2, 1, 33, 128, 0}, {1, 1, 1, 131, 128, 8},
    {2, 2, 1, 50, 8, 0},    {1, 1, 1, 90, 40, 0},  {1, 1, 1, 70, 104, 0}, {1, 2, 1, 40, 20, 0}};

AttentionKernel half_kernel(const AttentionCase& c) {
  AttentionKernel kernel = attention_kernel(c);
  kernel.dtype = Dtype::bfloat16;
  return kernel;
}

/// Numbers that bfloat16 has.
AttentionInputs half_inputs(const AttentionKernel& kernel) {
  AttentionInputs in = attention_inputs(kernel);
  for (std::vector<float>* values : {&in.q, &in.k, &in.v, &in.dy})
    *values = floats_of(halves_of(*values));
  return in;
}

std::string text_of(const AttentionCase& c) {
  return fmt::format("{} x {} heads ({}) x {} x {}, gap {}", c.batch, c.heads, c.kv_heads, c.length,
                     c.head_dim, c.gap);
}

/// What is stored is rounded once (2^-9), the weights in between once more.
constexpr double tolerance = 1.3 * 0x1p-8;

/// cuDNN's backward keeps dk and dv of each query head in bfloat16 before it adds those of a group.
bool adds_rounded_heads(const Device& device, const AttentionCase& c) {
  return c.heads > c.kv_heads && device.description().ends_with("cuDNN attention");
}

TEST(FlashAttention, ForwardEqualsTheWholeSoftmax) {
  for (const AttentionCase& c : cases)
    on_every_device([&](Device& device) {
      SCOPED_TRACE(text_of(c));
      const AttentionForwardKernel k{half_kernel(c)};
      const AttentionInputs in = half_inputs(k);
      const AttentionResults expected = attention_reference(k, in);
      GuardedCall call(k);
      call.with(halves_of(in.q))
          .with(halves_of(in.k))
          .with(halves_of(in.v))
          .with(Halves(in.dy.size()))
          .with(std::vector<float>(expected.lse.size()))
          .run(device);
      expect_close(floats_of(call.result<Bfloat16>(3)), expected.y, tolerance, "y");
      expect_close(call.result(4), expected.lse, 1e-5, "lse");
    });
}

TEST(FlashAttention, BackwardEqualsTheWholeSoftmax) {
  for (const AttentionCase& c : cases)
    on_every_device([&](Device& device) {
      SCOPED_TRACE(text_of(c));
      const AttentionBackwardKernel k{half_kernel(c)};
      const AttentionInputs in = half_inputs(k);
      AttentionResults expected = attention_reference(k, in);
      const Halves y = halves_of({expected.y.begin(), expected.y.end()});
      const std::vector<float> lse(expected.lse.begin(), expected.lse.end());
      const Halves nines = halves_of({9});
      GuardedCall call(k);
      call.with(halves_of(in.dy))
          .with(halves_of(in.q))
          .with(halves_of(in.k))
          .with(halves_of(in.v))
          .with(y)
          .with(lse)
          .with(Halves(in.q.size(), nines[0]))
          .with(Halves(in.k.size(), nines[0]))
          .with(Halves(in.v.size(), nines[0]))
          .run(device);
      keep_gaps(expected.dq, 9, k.q_stride, k.heads * k.head_dim);
      keep_gaps(expected.dk, 9, k.kv_stride, k.kv_heads * k.head_dim);
      keep_gaps(expected.dv, 9, k.kv_stride, k.kv_heads * k.head_dim);
      // A gradient of a score is a small difference of large, rounded numbers.
      const double of_keys = 2 * tolerance * (adds_rounded_heads(device, c) ? 1.5 : 1);
      expect_close(floats_of(call.result<Bfloat16>(6)), expected.dq, 2 * tolerance, "dq");
      expect_close(floats_of(call.result<Bfloat16>(7)), expected.dk, of_keys, "dk");
      expect_close(floats_of(call.result<Bfloat16>(8)), expected.dv, of_keys, "dv");
    });
}

TEST(FlashAttention, NaNInAKeyReachesEveryLaterRow) {
  const AttentionCase c{1, 1, 1, 150, 64, 0};
  on_every_device([&](Device& device) {
    const AttentionForwardKernel k{half_kernel(c)};
    AttentionInputs in = half_inputs(k);
    in.k[70 * 64] = std::numeric_limits<float>::quiet_NaN();
    GuardedCall call(k);
    call.with(halves_of(in.q))
        .with(halves_of(in.k))
        .with(halves_of(in.v))
        .with(Halves(in.dy.size()))
        .with(std::vector<float>(150))
        .run(device);
    const std::vector<float> y = floats_of(call.result<Bfloat16>(3));
    EXPECT_FALSE(std::isnan(y[69 * 64]));
    for (std::int64_t t = 70; t < 150; ++t) EXPECT_TRUE(std::isnan(y[t * 64])) << t;
  });
}

/// Both passes of one call on memory of its own.
EmulatedCounts counts_of(const AttentionCase& c) {
  EmulatedStream stream;
  const AttentionKernel k = half_kernel(c);
  AttentionInputs in = half_inputs(k);
  const AttentionResults expected = attention_reference(k, in);
  alignas(16) static Bfloat16 memory[8][200 * 128];
  std::vector<float> lse(expected.lse.size()), delta(expected.lse.size());
  std::ranges::copy(halves_of(in.dy), memory[0]);
  std::ranges::copy(halves_of(in.q), memory[1]);
  std::ranges::copy(halves_of(in.k), memory[2]);
  std::ranges::copy(halves_of(in.v), memory[3]);
  const std::vector<void*> forward{memory[1], memory[2], memory[3], memory[4], lse.data(), nullptr};
  const std::vector<void*> backward{memory[0],  memory[1], memory[2], memory[3], memory[4],
                                    lse.data(), memory[5], memory[6], memory[7], delta.data()};
  cuda::run(AttentionForwardKernel{k}, {.operands = forward, .slices = {}, .state = {}}, stream);
  cuda::run(AttentionBackwardKernel{k}, {.operands = backward, .slices = {}, .state = {}}, stream);
  return stream.counts();
}

TEST(FlashAttention, LoadsOfMatricesMeetNoBankTwice) {
  for (const std::int64_t width : cuda::flash_widths) {
    EXPECT_EQ(counts_of({1, 1, 1, 200, width, 0}).bank_conflicts, 0) << width;
  }
}

// 128 queries of 64 elements see two tiles of 64 keys. Of the four warps of 32 queries, the first
// two see no key of the second tile: 4 + 2 times two products of 32 x 64 x 64 = 2 x 8 x 4
// instructions. Backward: dq in four tiles of 32 keys: 4 + 3 + 2 + 1 times three products of 32 x
// 32 x 64 = 2 x 4 x 4. dk and dv in blocks of 64 keys, warps of 16, tiles of 64 queries: every warp
// of the first block sees both, of the second one: 8 + 4 times four products of 16 x 64 x 64 = 8
// x 4.
TEST(FlashAttention, MasksCostNoProducts) {
  EXPECT_EQ(counts_of({1, 1, 1, 128, 64, 0}).products, 6 * 2 * 64 + 10 * 3 * 32 + 12 * 4 * 32);
}

// A block of sm_80 has 163 KiB, of sm_90 227 KiB; 65536 registers for 128 threads are more than the
// 255 that a thread can have.
template <int width>
constexpr bool fits_every_architecture =
    cuda::FlashForwardTile<width>::shared_bytes <= 163 * 1024 &&
    cuda::FlashQueryTile<width>::shared_bytes <= 163 * 1024 &&
    cuda::FlashKeyTile<width>::shared_bytes <= 163 * 1024 && cuda::flash_threads * 255 <= 65536;
static_assert(fits_every_architecture<64> && fits_every_architecture<80> &&
              fits_every_architecture<96> && fits_every_architecture<128>);
// Rows of 64 elements lie 9 chunks of 16 bytes apart: (128 + 2 * 64) * 144.
static_assert(cuda::FlashForwardTile<64>::shared_bytes == 36864);

TEST(FlashAttention, TakesOnlyRowsThatCopiesOf16BytesCanMove) {
  AttentionKernel k = half_kernel({1, 2, 2, 8, 64, 0});
  EXPECT_TRUE(cuda::fits_flash_attention(k));
  k.q_stride = 132;
  EXPECT_FALSE(cuda::fits_flash_attention(k));
  EXPECT_FALSE(cuda::fits_flash_attention(half_kernel({1, 1, 1, 8, 136, 0})));
  k = attention_kernel({1, 2, 2, 8, 64, 0});
  EXPECT_FALSE(cuda::fits_flash_attention(k));
}

}  // namespace
}  // namespace shardscope::test
