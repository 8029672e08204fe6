#include "traces/import/memory_snapshot_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/pickle_text.h"
#include "tests/traces/snapshot_text.h"
#include "tests/traces/string_input.h"
#include "traces/import/snapshot_growth.h"
#include "traces/import/snapshot_lifetimes.h"
#include "traces/import/snapshot_owners.h"
#include "traces/import/snapshot_replay.h"
#include "traces/import/snapshot_state.h"

namespace shardscope {
namespace {

namespace py = samples::pickled;
using samples::event;
using samples::frame;
using samples::snapshot;
using testing::ElementsAre;
using testing::Pair;

std::string block(std::int64_t address, std::int64_t size, std::int64_t requested,
                  std::string_view state) {
  return py::dict({{"address", py::integer(address)},
                   {"size", py::integer(size)},
                   {"requested_size", py::integer(requested)},
                   {"state", py::text(state)},
                   {"frames", py::list({frame("train.py", 3, "main")})}});
}

std::string segment(std::int64_t address, std::int64_t size,
                    const std::vector<std::string>& blocks) {
  return py::dict({{"device", py::integer(0)},
                   {"address", py::integer(address)},
                   {"total_size", py::integer(size)},
                   {"stream", py::integer(0)},
                   {"segment_type", py::text("large")},
                   {"segment_pool_id", py::tuple(0, 0)},
                   {"blocks", py::list(blocks)}});
}

/// Of 4,096 bytes: a block of 1,000 that was there before and stays, one of 500 that was freed in
/// the history, two new ones, the last of which a stream still waits for.
MemorySnapshot late_history() {
  return snapshot(
      {segment(
          0x1000, 4096,
          {block(0x1000, 1024, 1000, "active_allocated"), block(0x1400, 512, 9999, "inactive"),
           block(0x1600, 512, 300, "active_pending_free"), block(0x1800, 2048, 0, "inactive")})},
      {event("free_requested", 0x1400, 500), event("free_completed", 0x1400, 500),
       event("segment_alloc", 0x9000, 8192),
       event("alloc", 0x9000, 7000,
             {frame("libtorch.so", 7, "at::empty"), frame("model.py", 12, "forward")}),
       event("alloc", 0x1600, 300), event("free_requested", 0x1600, 300),
       event("free_requested", 0x9000, 7000), event("free_completed", 0x9000, 7000),
       event("segment_free", 0x9000, 8192)});
}

TEST(SnapshotReplay, FindsWhatWasThereBeforeTheFirstEvent) {
  const auto played = replay(late_history(), 0);
  EXPECT_EQ(played.baseline.totals.active, 1500_B);  // 1,000 stays, 500 is freed
  EXPECT_EQ(played.baseline.totals.allocated, 1500_B);
  EXPECT_EQ(played.baseline.totals.reserved, 4096_B);  // 8,192 came and went
  EXPECT_EQ(played.baseline.freed_later, 1);
  EXPECT_EQ(played.baseline.alive_at_end, 1);
  EXPECT_EQ(played.baseline.alive_with_frames, 1);
}

TEST(SnapshotReplay, PeaksAreTheFirstOfTheHighest) {
  const auto played = replay(late_history(), 0);
  EXPECT_EQ(played.peak_active, (SnapshotPeak{8300_B, 4}));  // 1,000 + 7,000 + 300
  EXPECT_EQ(played.peak_allocated, (SnapshotPeak{8300_B, 4}));
  EXPECT_EQ(played.peak_reserved, (SnapshotPeak{12288_B, 2}));
}

TEST(SnapshotReplay, ABlockThatIsWaitedForIsActiveAndNotAllocated) {
  const auto played = replay(late_history(), 0);
  EXPECT_EQ(played.after[5], (SnapshotTotals{8300_B, 8000_B, 12288_B}));
  EXPECT_EQ(played.end, (SnapshotTotals{1300_B, 1000_B, 4096_B}));
  EXPECT_TRUE(played.agrees_with_segments());
}

TEST(SnapshotReplay, EndsBlocksByRequestWhereCompletionWasNotRecorded) {
  const auto played = replay(
      snapshot({}, {event("alloc", 1, 10), event("free_requested", 1, 10), event("alloc", 2, 5)}),
      0);
  EXPECT_EQ(played.completion, SnapshotAction::free_requested);
  EXPECT_EQ(played.peak_active.bytes, 10_B);
  EXPECT_EQ(played.without_end, 1);
}

TEST(SnapshotReplay, DoesNotGuessAllocatedWhereRequestsWereNotRecorded) {
  EXPECT_FALSE(replay(snapshot({}, {event("alloc", 1, 10), event("free_completed", 1, 10)}), 0)
                   .knows_allocated);
}

TEST(SnapshotReplay, LiveBlocksAreTheLargestFirst) {
  const auto from = late_history();
  const auto blocks = live_blocks(from, 0, 4);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].size, 7000_B);
  EXPECT_EQ(blocks[0].event, 3u);
  EXPECT_EQ(innermost_python_frame(from, blocks[0].stack), "model.py:12:forward");
  EXPECT_EQ(blocks[1].event, std::nullopt);
  EXPECT_EQ(blocks[2].address, 0x1600);
}

TEST(SnapshotLifetimes, GoFromTheirAllocationToTheirFree) {
  const auto from = snapshot(
      {}, {event("alloc", 1, 10), event("free_requested", 1, 10), event("free_completed", 1, 10),
           event("alloc", 1, 20), event("free_completed", 7, 5)});
  const auto lifetimes = block_lifetimes(from, 0);
  ASSERT_EQ(lifetimes.size(), 3u);
  EXPECT_EQ(lifetimes[0].block.size, 5_B) << "from before the first event";
  EXPECT_EQ(lifetimes[0].block.event, std::nullopt);
  EXPECT_EQ(lifetimes[0].end, 4u);
  EXPECT_EQ(lifetimes[1].block.event, 0u);
  EXPECT_EQ(lifetimes[1].end, 2u) << "when no stream waits for it any more";
  EXPECT_EQ(lifetimes[2].block.size, 20_B);
  EXPECT_EQ(lifetimes[2].end, std::nullopt);
}

TEST(SnapshotGrowth, WhatGrewMostIsFirst) {
  const std::string leak = frame("train.py", 9, "keep"), model = frame("model.py", 3, "forward");
  const auto before =
      snapshot({}, {event("alloc", 1, 10, {leak}), event("alloc", 2, 300, {model})});
  const auto after = snapshot({}, {event("alloc", 1, 10, {leak}), event("alloc", 2, 30, {leak}),
                                   event("alloc", 3, 100, {model})});
  const auto alive_before = live_blocks(before, 0, 1), alive_after = live_blocks(after, 0, 2);
  const LiveBlocks a{before, alive_before}, b{after, alive_after};
  EXPECT_THAT(memory_growth(a, b, GrowthBy::frame),
              ElementsAre(MemoryGrowth{"train.py:9:keep", 0_B, 1, 2, 10_B, 40_B},
                          MemoryGrowth{"model.py:3:forward", 0_B, 1, 1, 300_B, 100_B}));
  EXPECT_THAT(memory_growth(a, b, GrowthBy::frame_and_size),
              ElementsAre(MemoryGrowth{"model.py:3:forward", 100_B, 0, 1, 0_B, 100_B},
                          MemoryGrowth{"train.py:9:keep", 30_B, 0, 1, 0_B, 30_B},
                          MemoryGrowth{"train.py:9:keep", 10_B, 1, 1, 10_B, 10_B},
                          MemoryGrowth{"model.py:3:forward", 300_B, 1, 0, 300_B, 0_B}));
}

TEST(SnapshotOwners, OwnCodeIsThatOfNoPackage) {
  const auto from = snapshot(
      {},
      {event("alloc", 1, 10,
             {frame("/usr/lib/python3/site-packages/torch/nn/f.py", 1, "linear"),
              frame("/home/me/model.py", 12, "forward"), frame("/home/me/train.py", 3, "main")})});
  EXPECT_EQ(innermost_own_frame(from, live_blocks(from, 0, 0)[0].stack),
            "/home/me/model.py:12:forward");
}

TEST(SnapshotReplay, ForgetsTheFramesOfAFree) {
  const auto from = snapshot({}, {event("free_completed", 1, 10, {frame("a.py", 1, "late")})});
  const auto blocks = live_blocks(from, 0, -1);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].stack, no_stack);
}

TEST(SnapshotOwners, AreTheInnermostFramesOfPython) {
  const auto from = late_history();
  EXPECT_THAT(owners_by_frame(from, live_blocks(from, 0, 4)),
              ElementsAre(MemoryOwner{"model.py:12:forward", 1, 7000_B},
                          MemoryOwner{"train.py:3:main", 1, 1000_B}, MemoryOwner{"", 1, 300_B}));
}

/// A block's frames as torch 2.15 wrote them, innermost first, whose parameters are shortened here.
TEST(SnapshotOwners, WithoutPythonAreTheInnermostFunctionsThatSayWhatFor) {
  const auto owner_of = [](const std::vector<std::string>& functions) {
    std::vector<std::string> frames;
    for (const std::string& function : functions)
      frames.push_back(frame("site-packages/torch/lib/libtorch_cuda.so", 0, function));
    const auto from = snapshot({}, {event("alloc", 1, 10, frames)});
    return owners_by_frame(from, live_blocks(from, 0, 0)).at(0).name;
  };
  EXPECT_EQ(
      owner_of({"torch::unwind::unwind()", "torch::CapturedTraceback::gather(bool, bool, bool)",
                "??", "at::cuda::allocateCUDABlasWorkspace(unsigned long)",
                "at::cuda::getCurrentCUDABlasHandleWithWorkspace()"}),
      "at::cuda::allocateCUDABlasWorkspace");
  EXPECT_EQ(owner_of({"??", "at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)",
                      "at::detail::empty_cuda(c10::ArrayRef<long>)",
                      "at::meta::structured_mm::meta(at::Tensor const&, at::Tensor const&)"}),
            "at::meta::structured_mm::meta");
  EXPECT_EQ(owner_of({"at::native::(anonymous namespace)::sum_kernel(at::Tensor&)"}),
            "at::native::(anonymous namespace)::sum_kernel");
  EXPECT_EQ(owner_of({"??", "c10::impl::run()"}), "");
}

TEST(SnapshotState, RequestsOfInactiveBlocksCountNowhere) {
  const auto state = snapshot_state(late_history(), 0);
  const auto& inactive = state.by_state[static_cast<std::size_t>(SnapshotBlockState::inactive)];
  EXPECT_EQ(inactive.count, 2);
  EXPECT_EQ(inactive.size, 2560_B);
  EXPECT_EQ(inactive.requested, 0_B);
  EXPECT_EQ(state.leftover_requests, 1);  // 9,999 in a block of 512
  EXPECT_EQ(state.largest_inactive, 2048_B);
}

TEST(SnapshotState, AddsUpStreamsOfActiveBlocks) {
  const auto state = snapshot_state(late_history(), 0);
  const SnapshotStream& stream = state.by_stream.at(0);
  EXPECT_EQ(stream.reserved, 4096_B);
  EXPECT_EQ(stream.active, 1536_B);
  EXPECT_EQ(stream.active_requested, 1300_B);
  EXPECT_EQ(state.allocated, std::nullopt);  // the segment does not say
}

TEST(SnapshotState, ComparesSegmentsByAddressAndSize) {
  const auto before = snapshot({segment(1, 10, {}), segment(2, 10, {})}, {});
  const auto after =
      snapshot({segment(2, 20, {block(2, 20, 19, "active_allocated")}), segment(1, 10, {})}, {});
  const auto changes = segment_changes(before, after);
  EXPECT_THAT(changes.only_before, ElementsAre(2));
  EXPECT_THAT(changes.only_after, ElementsAre(2));
  EXPECT_EQ(changes.after_by_state[0].size, 20_B);
}

TEST(MemorySnapshotReader, BlocksOfOldSnapshotsFollowEachOther) {
  // torch 2.0: no addresses, what was asked for stands in a history.
  const std::string entry = py::dict({{"addr", py::integer(0)},
                                      {"real_size", py::integer(90)},
                                      {"frames", py::list({frame("a.py", 1, "f")})}});
  const std::string old = py::dict({{"size", py::integer(100)},
                                    {"state", py::text("active_allocated")},
                                    {"history", py::list({entry})}});
  const auto from = snapshot({segment(0x1000, 300, {old, old})}, {});
  ASSERT_EQ(from.blocks.size(), 2u);
  EXPECT_EQ(from.blocks[1].address, 0x1000 + 100);
  EXPECT_EQ(from.blocks[1].requested, 90_B);
  EXPECT_EQ(innermost_python_frame(from, from.blocks[1].stack), "a.py:1:f");
}

TEST(MemorySnapshotReader, LosesOneEventForOneThatIsBad) {
  const auto from = snapshot(
      {},
      {event("alloc", 1, 10), event("explode", 2, 10), event("alloc", 3, -1), py::integer(4),
       py::dict({{"action", py::text("alloc")}, {"size", py::integer(1)}}), event("alloc", 5, 50)});
  EXPECT_EQ(from.report.events_read, 6);
  EXPECT_EQ(from.report.events_kept, 2);
  EXPECT_THAT(from.report.skipped, ElementsAre(Pair("no address", 1), Pair("no known action", 2),
                                               Pair("no usable size", 1)));
}

TEST(MemorySnapshotReader, ReadsAListOfSegments) {
  const std::string bytes = py::whole(py::list({segment(1, 10, {})}));
  samples::StringInput input(bytes);
  EXPECT_EQ(read_memory_snapshot(input, "a.pickle").segments.size(), 1u);
}

TEST(MemorySnapshotReader, TakesAListOnceThatIsThereTwice) {
  // One list of events under two devices, by reference.
  const std::string events = "](" + event("alloc", 1, 10) + "e\x94";
  const std::string bytes =
      "\x80\x04}(" + py::text("device_traces") + "](" + events + "h" + std::string(1, '\0') + "eu.";
  samples::StringInput input(bytes);
  const auto from = read_memory_snapshot(input, "a.pickle");
  EXPECT_EQ(from.report.events_kept, 1);
  EXPECT_THAT(from.report.odd,
              ElementsAre(Pair("lists are the same as an earlier one, left out", 1)));
}

TEST(MemorySnapshotReader, RefusesOtherPickles) {
  const std::string bytes = py::whole(py::dict({{"weights", py::list({})}}));
  samples::StringInput input(bytes);
  EXPECT_THROW(read_memory_snapshot(input, "a.pickle"), Error);
}

}  // namespace
}  // namespace shardscope
