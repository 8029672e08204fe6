// The emulated tensor core against the fragment layouts of the PTX ISA ("Matrix Fragments for
// mma.m16n8k16 with floating point type", "ldmatrix"), filled in here element by element as the
// document numbers them.
#include "tests/backend/cuda/emulated_tensor_core.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "tests/backend/cuda/emulated_stream.h"

namespace shardscope::test {
namespace {

std::uint32_t pair(float low, float high) {
  return to_bfloat16(low).bits | static_cast<std::uint32_t>(to_bfloat16(high).bits) << 16;
}

/// Small whole numbers, different enough to tell any two places apart in a sum.
float number(int row, int column) { return static_cast<float>((row * 5 + column * 3) % 11 - 5); }

/// a_i: row = groupID for i in 0, 1, 4, 5, else groupID + 8; column = threadID_in_group * 2 + (i &
/// 1), 8 more for i >= 4. b_i: row = threadID_in_group * 2 + (i & 1), 8 more for i >= 2; column =
/// groupID.
ProductOperands operands_of(int lane) {
  const int group = lane >> 2, in_group = lane % 4;
  const auto a = [&](int i) {
    return number(i < 2 || (i >= 4 && i < 6) ? group : group + 8,
                  in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0));
  };
  const auto b = [&](int i) {
    return number(in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group + 100);
  };
  return {.a = {{pair(a(0), a(1)), pair(a(2), a(3)), pair(a(4), a(5)), pair(a(6), a(7))}},
          .b = {pair(b(0), b(1)), pair(b(2), b(3))}};
}

// c_i: row = groupID for i < 2, else groupID + 8; column = threadID_in_group * 2 + (i & 1).
TEST(EmulatedTensorCore, MultipliesFragmentsOfTheDocument) {
  std::array<ProductOperands, 32> warp;
  for (int lane = 0; lane < 32; ++lane) warp[static_cast<std::size_t>(lane)] = operands_of(lane);
  const Lanes<ProductOperands> lanes{reinterpret_cast<const std::byte*>(warp.data()),
                                     sizeof(ProductOperands)};
  for (int lane = 0; lane < 32; ++lane) {
    cuda::Accumulator c{{1, 2, 3, 4}};
    multiply_add(lane, lanes, c);
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
      float expected = static_cast<float>(i + 1);
      for (int k = 0; k < 16; ++k) expected += number(row, k) * number(k, column + 100);
      EXPECT_EQ(c.r[i], expected) << lane << " " << i;
    }
  }
}

struct LoadsMatrices {
  std::array<cuda::Matrices, 32>* out;
  bool transposed;
  void operator()(EmulatedThread& thread) const {
    auto* shared = thread.shared<Bfloat16>();
    const int lane = thread.index();
    for (int column = 0; column < 8; ++column)
      shared[lane * 8 + column] = {static_cast<std::uint16_t>(lane * 100 + column)};
    thread.sync();
    (*out)[static_cast<std::size_t>(lane)] =
        transposed ? thread.load_transposed_matrices(shared + lane * 8)
                   : thread.load_matrices(shared + lane * 8);
  }
};

// Lane 13 is in row 3 and holds columns 2 and 3; of matrix 2, that is the row of lane 16 + 3.
// Transposed, it holds rows 2 and 3 of column 3: of lanes 18 and 19.
TEST(EmulatedTensorCore, LoadsRowsAndTheirTransposes) {
  std::array<cuda::Matrices, 32> loaded{};
  const cuda::LaunchShape shape{.threads = 32, .shared_bytes = 32 * 16};
  EmulatedStream stream;
  stream.launch(LoadsMatrices{&loaded, false}, shape);
  EXPECT_EQ(loaded[13].r[2], 1902u | 1903u << 16);
  stream.launch(LoadsMatrices{&loaded, true}, shape);
  EXPECT_EQ(loaded[13].r[2], 1803u | 1903u << 16);
  // Eight neighbouring rows of 16 bytes go over all banks once.
  EXPECT_EQ(stream.counts().bank_conflicts, 0);
}

struct LoadsEverySecondRow {
  void operator()(EmulatedThread& thread) const {
    thread.load_matrices(thread.shared<Bfloat16>() + thread.index() * 16);
  }
};

// Rows 32 bytes apart: the 8 rows of a matrix meet 4 of the 8 groups of banks twice.
TEST(EmulatedTensorCore, CountsBankConflicts) {
  EmulatedStream stream;
  stream.launch(LoadsEverySecondRow{}, {.threads = 32, .shared_bytes = 32 * 32});
  EXPECT_EQ(stream.counts().bank_conflicts, 4);
}

struct LoadsFromTheMiddle {
  void operator()(EmulatedThread& thread) const {
    thread.load_matrices(thread.shared<Bfloat16>() + thread.index() * 8 + 4);
  }
};
struct DoesDifferentThings {
  void operator()(EmulatedThread& thread) const {
    if (thread.index() < 5)
      thread.shuffle_xor(1, 1);
    else
      thread.load_matrices(thread.shared<Bfloat16>());
  }
};

TEST(EmulatedTensorCore, FindsWhatTheDeviceWouldNotForgive) {
  EmulatedStream stream;
  const cuda::LaunchShape shape{.threads = 32, .shared_bytes = 32 * 16 + 8};
  EXPECT_THROW(stream.launch(LoadsFromTheMiddle{}, shape), std::logic_error);
  EXPECT_THROW(stream.launch(DoesDifferentThings{}, shape), std::logic_error);
}

struct CopiesTwoGroups {
  const Bfloat16* from;
  std::array<std::uint16_t, 4>* seen;
  int wait;
  void operator()(EmulatedThread& thread) const {
    auto* to = thread.shared<Bfloat16>();
    if (thread.index() == 0) {
      for (int i = 0; i < 2; ++i) {
        thread.copy_async(to + 8 * i, from, i == 0);
        thread.commit_copies();
      }
      wait == 1 ? thread.wait_for_copies<1>() : thread.wait_for_copies<0>();
      *seen = {to[0].bits, to[7].bits, to[8].bits, to[15].bits};
      thread.wait_for_copies<0>();
    }
  }
};

// Shared memory holds 0xffff before; what is absent becomes zero.
TEST(EmulatedTensorCore, CopiesComeWhenTheyAreWaitedFor) {
  alignas(16) const std::array<Bfloat16, 8> from{{{7}, {1}, {1}, {1}, {1}, {1}, {1}, {9}}};
  std::array<std::uint16_t, 4> seen{};
  const cuda::LaunchShape shape{.threads = 32, .shared_bytes = 64};
  EmulatedStream().launch(CopiesTwoGroups{from.data(), &seen, 1}, shape);
  EXPECT_EQ(seen, (std::array<std::uint16_t, 4>{7, 9, 0xffff, 0xffff}));
  EmulatedStream().launch(CopiesTwoGroups{from.data(), &seen, 0}, shape);
  EXPECT_EQ(seen, (std::array<std::uint16_t, 4>{7, 9, 0, 0}));
}

struct ReadsWhatIsBeingCopied {
  const Bfloat16* from;
  std::array<std::uint16_t, 2>* seen;
  void operator()(EmulatedThread& thread) const {
    auto* to = thread.shared<Bfloat16>();
    if (thread.index() != 0) return;
    thread.copy_async(to, from, true);
    (*seen)[static_cast<std::size_t>(thread.block())] = to[0].bits;
    thread.commit_copies();
    thread.wait_for_copies<0>();
  }
};

// Until it is waited for, a copy may have come or not.
TEST(EmulatedTensorCore, CopiesComeAtOnceInOddBlocks) {
  alignas(16) const std::array<Bfloat16, 8> from{{{7}}};
  std::array<std::uint16_t, 2> seen{};
  EmulatedStream().launch(ReadsWhatIsBeingCopied{from.data(), &seen},
                          {.blocks = 2, .threads = 32, .shared_bytes = 64});
  EXPECT_EQ(seen, (std::array<std::uint16_t, 2>{0xffff, 7}));
}

struct LeavesACopy {
  const Bfloat16* from;
  void operator()(EmulatedThread& thread) const {
    thread.copy_async(thread.shared<Bfloat16>(), from, true);
  }
};

TEST(EmulatedTensorCore, FindsCopiesThatNobodyWaitedFor) {
  alignas(16) const std::array<Bfloat16, 8> from{};
  EXPECT_THROW(
      EmulatedStream().launch(LeavesACopy{from.data()}, {.threads = 32, .shared_bytes = 64}),
      std::logic_error);
}

}  // namespace
}  // namespace shardscope::test
