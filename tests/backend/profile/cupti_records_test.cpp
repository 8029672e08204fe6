// The parser on buffers laid out with CUPTI's own structs; CUPTI itself, which does that much
// without a GPU, says where each record begins.
#include "backend/profile/cupti_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/cuda_device.h"
#include "backend/profile/cupti_recorder.h"
#include "core/base/error.h"
#include "tests/backend/profile/activity_buffer.h"

namespace shardscope {
namespace {

using test::ActivityBuffer;
using test::empty_record;
using test::kernel_record;
using test::link_record;
using testing::ElementsAre;

class CuptiRecords : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cupti();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  ParsedRecords parse(const ParseLimits& limits = {}) {
    ParsedRecords parsed;
    parse_records(buffer_.bytes(), cupti(), limits, parsed);
    return parsed;
  }
  DeviceRecord only() {
    const ParsedRecords parsed = parse();
    EXPECT_EQ(parsed.records.size(), 1u);
    name_ = parsed.names.names().at(parsed.records.at(0).name);
    return parsed.records[0];
  }

  ActivityBuffer buffer_;
  std::string name_;
};

TEST_F(CuptiRecords, ReadsWhereAndWhenAKernelRan) {
  auto raw = kernel_record("_Z3addv", 41, 13, 1'000, 3'500);
  raw.deviceId = 2;
  raw.graphId = 7;
  raw.graphNodeId = 0x1'0000'0005;  // more than 32 bits
  buffer_.add(raw);
  EXPECT_EQ(only(), (DeviceRecord{.kind = RecordKind::kernel,
                                  .start_ns = 1'000,
                                  .end_ns = 3'500,
                                  .graph_node = 0x1'0000'0005,
                                  .graph = 7,
                                  .device = 2,
                                  .context = 1,
                                  .stream = 13,
                                  .correlation = 41,
                                  .operation = {}}));
  EXPECT_EQ(name_, "_Z3addv");
}

TEST_F(CuptiRecords, ReadsWhichWayACopyWentAndHowMuch) {
  auto raw = empty_record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  raw.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  raw.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  raw.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  raw.bytes = 5'000'000'000;  // more than 32 bits
  raw.start = 10;
  raw.end = 20;
  raw.streamId = 9;
  raw.runtimeCorrelationId = 99;
  raw.correlationId = 3;
  buffer_.add(raw);
  const DeviceRecord record = only();
  EXPECT_EQ(record.kind, RecordKind::copy);
  EXPECT_EQ(record.copy, CopyKind::device_to_host);
  EXPECT_EQ(record.bytes, 5'000'000'000);
  EXPECT_EQ(record.correlation, 3u);
  EXPECT_EQ(name_, "Memcpy DtoH (Device -> Pageable)");
}

TEST_F(CuptiRecords, ReadsCopiesBetweenDevices) {
  auto raw = empty_record<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  raw.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  raw.bytes = 64;
  raw.deviceId = 1;
  raw.srcDeviceId = 4;
  raw.dstDeviceId = 5;
  raw.correlationId = 8;
  raw.graphNodeId = 17;
  buffer_.add(raw);
  const DeviceRecord record = only();
  EXPECT_EQ(record.copy, CopyKind::peer);
  EXPECT_EQ(record.device, 1u);
  EXPECT_EQ(record.correlation, 8u);
  EXPECT_EQ(record.graph_node, 17u);
}

TEST_F(CuptiRecords, ReadsWhatWasSet) {
  auto raw = empty_record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  raw.value = 0xff;
  raw.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  raw.bytes = 4096;
  raw.start = 7;
  raw.end = 9;
  raw.streamId = 21;
  buffer_.add(raw);
  const DeviceRecord record = only();
  EXPECT_EQ(record.kind, RecordKind::set);
  EXPECT_EQ(record.bytes, 4096);
  EXPECT_EQ(record.stream, 21u);
  EXPECT_EQ(name_, "Memset (Device)");
}

TEST_F(CuptiRecords, NamesTheHostsCallsAsCuptiDoes) {
  auto raw = empty_record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  raw.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020;
  raw.start = 5;
  raw.end = 8;
  raw.correlationId = 12;
  buffer_.add(raw);
  const DeviceRecord record = only();
  EXPECT_EQ(record.kind, RecordKind::call);
  EXPECT_EQ(record.duration_ns(), 3);
  EXPECT_THAT(name_, testing::HasSubstr("cudaMemcpyAsync"));
}

TEST_F(CuptiRecords, LeavesTheHostsCallsOutWhereTheyAreNotWanted) {
  buffer_.add(empty_record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER));
  buffer_.add(kernel_record("k", 1, 7, 1, 2));
  const ParsedRecords parsed = parse({.keep_calls = false});
  ASSERT_EQ(parsed.records.size(), 1u);
  EXPECT_EQ(parsed.records[0].kind, RecordKind::kernel);
}

TEST_F(CuptiRecords, ReadsWhoAskedForMemory) {
  auto raw = empty_record<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  raw.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  raw.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  raw.address = 0x7f00'0000'0000;
  raw.bytes = 1 << 20;
  raw.timestamp = 77;
  raw.source = "/opt/lib/libnccl.so.2";
  buffer_.add(raw);
  const DeviceRecord record = only();
  EXPECT_EQ(record.kind, RecordKind::allocation);
  EXPECT_EQ(record.address, 0x7f00'0000'0000u);
  EXPECT_EQ(record.bytes, 1 << 20);
  EXPECT_EQ(record.start_ns, 77);
  EXPECT_FALSE(record.on_host);
  EXPECT_EQ(name_, "libnccl.so.2");
}

TEST_F(CuptiRecords, TellsReleasesAndPinnedMemoryApart) {
  auto raw = empty_record<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  raw.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  raw.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  buffer_.add(raw);
  const DeviceRecord record = only();
  EXPECT_EQ(record.kind, RecordKind::release);
  EXPECT_TRUE(record.on_host);
  EXPECT_EQ(name_, "unknown library");
}

TEST_F(CuptiRecords, ReadsWaitsEventsAndOverhead) {
  auto wait = empty_record<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  wait.start = 3;
  wait.end = 9;
  wait.streamId = 7;
  buffer_.add(wait);
  auto event = empty_record<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  event.deviceTimestamp = 30;
  event.streamId = 13;
  buffer_.add(event);
  auto overhead = empty_record<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  overhead.start = 40;
  overhead.end = 41;
  buffer_.add(overhead);
  const ParsedRecords parsed = parse();
  ASSERT_EQ(parsed.records.size(), 3u);
  EXPECT_THAT(parsed.names.names(),
              ElementsAre("stream synchronize", "event", "CUPTI flushes buffers"));
  EXPECT_EQ(parsed.records[0].stream, 7u);
  EXPECT_EQ(parsed.records[1].start_ns, 30);
  EXPECT_EQ(parsed.records[2].duration_ns(), 1);
}

TEST_F(CuptiRecords, KeepsOnlyTheLinksOfOurKind) {
  buffer_.add(link_record(5, 0x2'0000'0001));
  buffer_.add(link_record(5, 66, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1));
  EXPECT_THAT(parse().links, ElementsAre(ExternalLink{5, 0x2'0000'0001}));
}

TEST_F(CuptiRecords, GivesAnEqualNameOneNumber) {
  // Two strings that are equal, at two places.
  const std::string first = "kernel", second = "kernel";
  buffer_.add(kernel_record(first.c_str(), 1, 7, 1, 2));
  buffer_.add(kernel_record(second.c_str(), 2, 7, 2, 3));
  buffer_.add(kernel_record(nullptr, 3, 7, 3, 4));
  EXPECT_THAT(parse().names.names(), ElementsAre("kernel", "kernel without a name"));
}

TEST_F(CuptiRecords, CountsKindsThatItDoesNotReadAndGoesOn) {
  buffer_.add(empty_record<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT));
  buffer_.add(kernel_record("k", 1, 7, 1, 2));
  const ParsedRecords parsed = parse();
  EXPECT_EQ(parsed.unknown, 1);
  EXPECT_EQ(parsed.records.size(), 1u);
}

TEST_F(CuptiRecords, ARecordThatIsCutOffEndsTheBuffer) {
  buffer_.add(kernel_record("k", 1, 7, 1, 2));
  buffer_.add(kernel_record("k", 2, 7, 2, 3));
  buffer_.cut(8);
  EXPECT_EQ(parse().records.size(), 1u);
}

TEST_F(CuptiRecords, AKindThatCuptiDoesNotKnowEndsTheBufferAndIsCounted) {
  buffer_.add(kernel_record("k", 1, 7, 1, 2));
  buffer_.add(empty_record<CUpti_ActivityAPI>(static_cast<CUpti_ActivityKind>(9999)));
  const ParsedRecords parsed = parse();
  EXPECT_EQ(parsed.records.size(), 1u);
  EXPECT_EQ(parsed.broken, 1);
}

TEST_F(CuptiRecords, AnEmptyBufferHoldsNothing) {
  const ParsedRecords parsed = parse();
  EXPECT_TRUE(parsed.records.empty());
  EXPECT_EQ(parsed.broken, 0);
}

TEST_F(CuptiRecords, LeavesOutWhatEndsBeforeItStarts) {
  buffer_.add(kernel_record("k", 1, 7, 20, 10));
  const ParsedRecords parsed = parse();
  EXPECT_TRUE(parsed.records.empty());
  EXPECT_EQ(parsed.unordered, 1);
}

TEST_F(CuptiRecords, KeepsNoMoreThanItsLimitAndCountsTheRest) {
  for (std::uint32_t i = 1; i <= 5; ++i) {
    buffer_.add(link_record(i, i));
    buffer_.add(kernel_record("k", i, 7, i, i));
  }
  const ParsedRecords parsed = parse({.most_records = 3});
  EXPECT_EQ(parsed.records.size(), 3u);
  EXPECT_EQ(parsed.links.size(), 3u);
  EXPECT_EQ(parsed.not_kept, 4);
}

// Wherever there is no GPU, as on the machine that builds this: no crash, and a reason.
TEST_F(CuptiRecords, ARecorderWithoutADriverSaysSo) {
  if (why_no_cuda_device().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(make_cupti_recorder()->start(), testing::HasSubstr("is there a driver?"));
}

TEST_F(CuptiRecords, ExplainsWhoIsInTheWayAndWhichPermissionIsMissing) {
  EXPECT_THAT(explain(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "cuptiSubscribe", "Nsight"),
              testing::AllOf(testing::HasSubstr("nsys"), testing::HasSubstr("\"Nsight\"")));
  EXPECT_THAT(explain(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "cuptiActivityEnable"),
              testing::AllOf(testing::HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"),
                             testing::HasSubstr("CAP_SYS_ADMIN")));
  EXPECT_EQ(explain(CUPTI_ERROR_INVALID_KIND, "cuptiActivityEnable"),
            "cuptiActivityEnable: CUPTI_ERROR_INVALID_KIND");
}

}  // namespace
}  // namespace shardscope
