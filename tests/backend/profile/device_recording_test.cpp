#include "backend/profile/device_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace shardscope {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr OperationId first{0}, second{1};

DeviceRecord kernel(std::uint32_t stream, std::int64_t start, std::int64_t end,
                    OperationId operation) {
  return {.kind = RecordKind::kernel,
          .start_ns = start,
          .end_ns = end,
          .context = 1,
          .stream = stream,
          .operation = operation};
}

TEST(BusyByStream, SplitsAStreamsTimeByOperation) {
  const DeviceRecording recording{
      .names = {"k"},
      .records = {kernel(7, 100, 150, first), kernel(7, 160, 190, second),
                  kernel(7, 200, 210, first)},
      .notes = {}};
  const std::vector<StreamBusy> streams = busy_by_stream(recording);
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_EQ(streams[0].busy, 90_ns);
  EXPECT_THAT(streams[0].by_operation, ElementsAre(Pair(first, 60_ns), Pair(second, 30_ns)));
  EXPECT_EQ(streams[0].overlaps, 0);
}

TEST(BusyByStream, StreamsMayWorkAtTheSameTime) {
  const DeviceRecording recording{.names = {"k"},
                                  .records = {kernel(7, 0, 100, first), kernel(8, 50, 80, second)},
                                  .notes = {}};
  const std::vector<StreamBusy> streams = busy_by_stream(recording);
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].busy, 100_ns);
  EXPECT_EQ(streams[1].busy, 30_ns);
  EXPECT_EQ(streams[1].overlaps, 0);
}

// 10-50; 40-60 is 10 under it; 20-30, which a sort by start puts between, is all under it.
TEST(BusyByStream, CountsWhatOverlapsOnAStreamOnce) {
  const DeviceRecording recording{
      .names = {"k"},
      .records = {kernel(7, 10, 50, first), kernel(7, 20, 30, second), kernel(7, 40, 60, second)},
      .notes = {}};
  const StreamBusy stream = busy_by_stream(recording).at(0);
  EXPECT_EQ(stream.busy, 50_ns);
  EXPECT_THAT(stream.by_operation, ElementsAre(Pair(first, 40_ns), Pair(second, 10_ns)));
  EXPECT_EQ(stream.overlaps, 2);
  EXPECT_EQ(stream.overlapped, 20_ns);
}

TEST(BusyByStream, LeavesOutWhatHasNoTimesAndWhatDoesNotRunOnAStream) {
  DeviceRecord call = kernel(7, 5, 10, first);
  call.kind = RecordKind::call;
  const DeviceRecording recording{
      .names = {"k"}, .records = {kernel(7, 0, 0, first), call}, .notes = {}};
  EXPECT_TRUE(busy_by_stream(recording).empty());
}

// Whatever overlaps, the operations' times are the time in which the stream works: that is counted
// here a nanosecond at a time.
TEST(BusyByStream, SumsToTheStreamsTimeToTheNanosecond) {
  std::mt19937 random(9);
  const auto below = [&](int n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 200; ++round) {
    DeviceRecording recording{.names = {"k"}, .records = {}, .notes = {}};
    std::vector<bool> works(2'000, false);
    for (int i = 0; i < 30; ++i) {
      const std::int64_t start = 1 + below(1'500), end = start + below(100);
      recording.records.push_back(
          kernel(7, start, end, OperationId{static_cast<std::uint32_t>(below(5))}));
      for (std::int64_t t = start; t < end; ++t) works[static_cast<std::size_t>(t)] = true;
    }
    std::ranges::stable_sort(recording.records, {}, &DeviceRecord::start_ns);
    const StreamBusy stream = busy_by_stream(recording).at(0);
    Duration sum;
    for (const auto& [operation, time] : stream.by_operation) sum = sum + time;
    EXPECT_EQ(sum, stream.busy);
    EXPECT_EQ(stream.busy.ns, std::ranges::count(works, true));
  }
}

TEST(MemoryByLibrary, SumsWhatEachTookAndGaveBackOnTheDevice) {
  const auto memory = [](RecordKind kind, std::uint32_t name, std::int64_t bytes, bool on_host) {
    return DeviceRecord{
        .kind = kind, .bytes = bytes, .on_host = on_host, .name = name, .operation = {}};
  };
  const DeviceRecording recording{.names = {"libnccl.so.2", "libcublasLt.so.13"},
                                  .records = {memory(RecordKind::allocation, 0, 1'000, false),
                                              memory(RecordKind::allocation, 1, 32, false),
                                              memory(RecordKind::allocation, 0, 50, false),
                                              memory(RecordKind::allocation, 0, 7'777, true),
                                              memory(RecordKind::release, 0, 50, false)},
                                  .notes = {}};
  EXPECT_THAT(memory_by_library(recording),
              ElementsAre(LibraryMemory{"libcublasLt.so.13", 1, 0, 32_B, 0_B},
                          LibraryMemory{"libnccl.so.2", 2, 1, 1'050_B, 50_B}));
}

TEST(MemoryByLibrary, GivesAReleaseToTheLibraryThatTookTheMemory) {
  const auto at = [](RecordKind kind, std::uint32_t name, std::int64_t bytes) {
    return DeviceRecord{.kind = kind, .bytes = bytes, .address = 64, .name = name, .operation = {}};
  };
  const DeviceRecording recording{
      .names = {"libnccl.so.2", "unknown library"},
      .records = {at(RecordKind::allocation, 0, 1'000), at(RecordKind::release, 1, 0)},
      .notes = {}};
  EXPECT_THAT(memory_by_library(recording),
              ElementsAre(LibraryMemory{"libnccl.so.2", 1, 1, 1'000_B, 1'000_B}));
}

}  // namespace
}  // namespace shardscope
