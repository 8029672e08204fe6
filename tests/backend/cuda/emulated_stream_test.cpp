// The emulation finds what a device would not forgive.
#include "tests/backend/cuda/emulated_stream.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace shardscope::test {
namespace {

struct ReverseThroughSharedMemory {
  std::vector<int>* out;
  void operator()(EmulatedThread& thread) const {
    int* shared = thread.shared<int>();
    shared[thread.index()] = thread.index();
    thread.sync();
    (*out)[static_cast<std::size_t>(thread.block() * thread.count() + thread.index())] =
        shared[thread.count() - 1 - thread.index()];
  }
};

TEST(EmulatedStream, ThreadsSeeWhatOthersWroteBeforeTheSync) {
  std::vector<int> out(128);
  EmulatedStream().launch(ReverseThroughSharedMemory{&out},
                          {.blocks = 2, .threads = 64, .shared_bytes = 64 * sizeof(int)});
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(out[static_cast<std::size_t>(i)], 63 - i);
    EXPECT_EQ(out[static_cast<std::size_t>(64 + i)], 63 - i);
  }
}

struct WarpSums {
  std::vector<int>* out;
  void operator()(EmulatedThread& thread) const {
    (*out)[static_cast<std::size_t>(thread.index())] = cuda::warp_sum(thread, thread.index());
  }
};

// 0 + ... + 31 = 496, and 32 more for each lane of the second warp.
TEST(EmulatedStream, ShufflesStayWithinTheirWarp) {
  std::vector<int> out(64);
  EmulatedStream().launch(WarpSums{&out}, {.threads = 64});
  EXPECT_EQ(out[5], 496);
  EXPECT_EQ(out[40], 496 + 32 * 32);
}

struct HalfWaits {
  void operator()(EmulatedThread& thread) const {
    if (thread.index() < 16)
      thread.sync();
    else
      thread.shuffle_xor(0, 1);
  }
};

TEST(EmulatedStream, FindsThreadsThatWaitAtDifferentPlaces) {
  EXPECT_THROW(EmulatedStream().launch(HalfWaits{}, {.threads = 32}), std::logic_error);
}

struct LanesThatEnd {
  void operator()(EmulatedThread& thread) const {
    if (thread.index() % 2 == 0) thread.shuffle_xor(0, 2);
  }
};

// On a device a shuffle among all lanes of a warp is undefined unless all take part in it.
TEST(EmulatedStream, FindsLanesThatEndedBeforeTheirWarpsShuffle) {
  EXPECT_THROW(EmulatedStream().launch(LanesThatEnd{}, {.threads = 32}), std::logic_error);
}

/// A sync is missing between the write of one warp and the read of the other.
struct Unsynced {
  int writer;
  std::vector<int>* out;
  void operator()(EmulatedThread& thread) const {
    int* shared = thread.shared<int>();
    shared[thread.index()] = 0;
    thread.sync();
    const int warp = thread.index() / cuda::warp_size;
    if (warp == writer) shared[0] = 1;
    if (warp != writer) (*out)[static_cast<std::size_t>(thread.block())] = shared[0];
  }
};

TEST(EmulatedStream, RunsBlocksInEitherOrderOfTheirWarps) {
  for (const int writer : {0, 1}) {
    std::vector<int> out(2);
    EmulatedStream().launch(Unsynced{writer, &out},
                            {.blocks = 2, .threads = 64, .shared_bytes = 64 * sizeof(int)});
    EXPECT_NE(out[0], out[1]);
  }
}

TEST(EmulatedStream, RunsASingleBlockInEitherOrderByTurns) {
  EmulatedStream stream;
  std::vector<int> first(1), second(1);
  const cuda::LaunchShape shape{.threads = 64, .shared_bytes = 64 * sizeof(int)};
  stream.launch(Unsynced{0, &first}, shape);
  stream.launch(Unsynced{0, &second}, shape);
  EXPECT_NE(first[0], second[0]);
}

struct EndsBeforeTheSync {
  void operator()(EmulatedThread& thread) const {
    if (thread.index() < 32) thread.sync();
  }
};

TEST(EmulatedStream, FindsThreadsThatEndedBeforeTheirBlocksSync) {
  EXPECT_THROW(EmulatedStream().launch(EndsBeforeTheSync{}, {.threads = 64}), std::logic_error);
}

struct WritesBeyond {
  void operator()(EmulatedThread& thread) const { thread.shared<char>()[thread.index()] = 1; }
};

TEST(EmulatedStream, FindsWritesBeyondSharedMemory) {
  EXPECT_THROW(EmulatedStream().launch(WritesBeyond{}, {.threads = 32, .shared_bytes = 31}),
               std::logic_error);
}

struct Nothing {
  void operator()(EmulatedThread&) const {}
};

TEST(EmulatedStream, RefusesWhatNoDeviceRuns) {
  EmulatedStream stream;
  EXPECT_THROW(stream.launch(Nothing{}, {.threads = 2048}), std::logic_error);
  EXPECT_THROW(stream.launch(Nothing{}, {.threads = 48}), std::logic_error);
  EXPECT_THROW(stream.launch(Nothing{}, {.blocks = 0}), std::logic_error);
  EXPECT_THROW(stream.launch(Nothing{}, {.shared_bytes = 200 << 10}), std::logic_error);
}

struct ManyArguments {
  char bytes[5000];
  void operator()(EmulatedThread&) const {}
};

TEST(EmulatedStream, RefusesMoreArgumentsThanALaunchTakes) {
  EXPECT_THROW(EmulatedStream().launch(ManyArguments{}, {}), std::logic_error);
}

}  // namespace
}  // namespace shardscope::test
