#include "traces/import/nsight_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/sqlite_text.h"
#include "traces/import/device_activity.h"
#include "traces/import/import.h"
#include "traces/import/memory_activity.h"

namespace shardscope {
namespace {

using samples::SqliteSample;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Process 7 is 7 * 2^24 = 117440512, its thread 9 that + 9.
const std::string strings =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce'), (3, 'launch');";
const std::string kernels =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER);";
const std::string ranges =
    "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
    " textId INTEGER, globalTid INTEGER);"
    "CREATE TABLE ENUM_NSYS_EVENT_TYPE(id INTEGER, name TEXT);"
    "INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (59, 'NvtxPushPopRange'), (34, 'NvtxMark');";

ImportedTrace read(const std::string& statements) {
  const SqliteSample sample(statements);
  return read_nsight(sample.path(), "a.sqlite", {});
}

std::string error_of(const std::string& statements) {
  try {
    read(statements);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(NsightReader, KernelsLieOnTheStreamOfTheirProcessAndContext) {
  const auto trace =
      read(strings + kernels +
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 1, 7, 11, 117440512, 1),"
           " (150, 300, 0, 2, 7, 12, 117440512, 2), (160, 170, 1, 1, 7, 13, 117440512, 1);");
  const auto devices = device_activities(trace);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_THAT(devices[0].streams,
              ElementsAre("pid 7 context 1 stream 7", "pid 7 context 2 stream 7"));
  const auto figures = device_figures(devices[0]);
  EXPECT_EQ(figures.time.compute.ns, 100);
  EXPECT_EQ(figures.time.exposed_communication.ns, 100);  // 200 to 300; 150 to 200 is overlapped
  EXPECT_EQ(trace.events.link[0], 11u);
}

TEST(NsightReader, CopiesHaveTheirKindAndBytes) {
  const auto trace = read(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER,"
      " streamId INTEGER, bytes INTEGER, copyKind INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 5, 0, 7, 4096, 2);"
      "CREATE TABLE ENUM_CUDA_MEMCPY_OPER(id INTEGER, name TEXT);"
      "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (2, 'CUDA_MEMCPY_KIND_DTOH');");
  EXPECT_EQ(trace.name_of(0), "CUDA_MEMCPY_KIND_DTOH");
  ASSERT_EQ(trace.copied_bytes.size(), 1u);
  EXPECT_EQ(trace.copied_bytes[0].bytes, 4096_B);
  EXPECT_EQ(trace.events.span_class[0], SpanClass::copy);
}

TEST(NsightReader, NamesOfRangesEndWhereTheirNumbersBegin) {
  const auto trace = read(ranges +
                          "INSERT INTO NVTX_EVENTS VALUES"
                          " (1, 5, 59, 'aten::add, seq = 3, op_id = 7', NULL, 117440521);");
  EXPECT_EQ(trace.name_of(0), "aten::add");
  EXPECT_EQ(trace.text_of(0), R"({"text":"aten::add, seq = 3, op_id = 7"})");
  EXPECT_EQ(trace.category_of(0), "NvtxPushPopRange");
  EXPECT_EQ(trace.track_of(0).process.text, "7");
  EXPECT_EQ(trace.track_of(0).thread.text, "9");
}

TEST(NsightReader, ARangeWithoutEndLastsToTheLastAndAMarkDoesNot) {
  const auto trace = read(ranges +
                          "INSERT INTO NVTX_EVENTS VALUES (1, NULL, 59, 'a', NULL, 1),"
                          " (2, NULL, 34, 'b', NULL, 1), (3, 50, 59, 'c', NULL, 1);");
  EXPECT_EQ(trace.events.duration_ns[0], 49);
  EXPECT_EQ(trace.events.phase[1], 'i');
  EXPECT_EQ(trace.events.duration_ns[1], 0);
}

TEST(NsightReader, SaysWhatItDoesNotRead) {
  const auto trace = read(kernels +
                          "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD(start INTEGER);"
                          "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (1), (2);");
  EXPECT_THAT(trace.report.guessed,
              Contains("2 rows of CUPTI_ACTIVITY_KIND_OVERHEAD are not read"));
}

TEST(NsightReader, LosesOneRowForOneThatIsBad) {
  const auto trace =
      read(strings + kernels +
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 1, 7, 11, 1, 1),"
           " ('x', 200, 0, 1, 7, 12, 1, 1), (300, 250, 0, 1, 7, 13, 1, 1), (400, 500, 0, 1, 7, 14, "
           "1, 99);");
  EXPECT_EQ(trace.report.events_kept, 3);
  EXPECT_THAT(trace.report.skipped, ElementsAre(Pair("no usable time", 1)));
  EXPECT_THAT(trace.report.odd, ElementsAre(Pair("have a negative duration, taken as 0", 1),
                                            Pair("have no name", 1)));
}

TEST(NsightReader, ExplainsASchemaThatItDoesNotKnow) {
  EXPECT_THAT(error_of("CREATE TABLE other(a);"), HasSubstr("no export of Nsight Systems"));
  const auto trace = read(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(begin INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1);");
  EXPECT_THAT(trace.report.guessed, Contains("CUPTI_ACTIVITY_KIND_KERNEL: no column start"));
}

TEST(NsightReader, NeverRunsAView) {
  // A view that never ends, under the name of a table.
  EXPECT_THAT(error_of("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(n) AS"
                       " (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS start, n AS \"end\","
                       " 0 AS deviceId, 0 AS streamId FROM c;"
                       "CREATE TABLE other(a);"),
              HasSubstr("no export of Nsight Systems"));
}

TEST(NsightReader, ReadsWhatIsLeftOfACutFile) {
  std::string statements = strings + kernels;
  for (int i = 0; i < 2000; ++i)
    statements += "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + std::to_string(i) + ", " +
                  std::to_string(i + 1) + ", 0, 1, 7, 11, 117440512, 1);";
  const SqliteSample sample("BEGIN;" + statements + "COMMIT;");
  const auto whole = std::filesystem::file_size(sample.path());
  std::filesystem::resize_file(sample.path(), whole / 2);
  const auto trace = read_nsight(sample.path(), "a.sqlite", {});
  EXPECT_GT(trace.events.size(), 100u);
  EXPECT_LT(trace.events.size(), 2000u);
  EXPECT_THAT(trace.report.guessed, Contains("the file is damaged or cut off"));
}

TEST(NsightReader, IsFoundByItsFirstBytes) {
  const SqliteSample sample(strings + kernels);
  EXPECT_EQ(import_traces(sample.path()).front().report.format, "nsight");
}

TEST(NsightReader, SynchronizationsLieBesideTheirStream) {
  const auto trace = read(
      strings + kernels +
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 0, 1, 7, 11, 117440512, 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER, deviceId "
      "INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
      " syncType INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
      " (150, 210, 0, 1, 7, 12, 117440512, 3), (220, 230, 0, 1, 4294967295, 13, 117440512, 99);");
  EXPECT_EQ(trace.name_of(1), "Stream Sync");
  EXPECT_EQ(trace.name_of(2), "Sync");
  EXPECT_EQ(trace.category_of(1), "cuda_sync");
  EXPECT_EQ(trace.track_of(1).kind, TrackKind::annotations);
  EXPECT_EQ(device_figures(device_activities(trace).at(0)).time.span.ns, 100);  // the kernel's
}

const std::string memory_table =
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start INTEGER, globalPid INTEGER, deviceId INTEGER,"
    " contextId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER,"
    " memoryOperationType INTEGER);";

TEST(NsightReader, AddsUpTheDevicesMemory) {
  // Not in order of time; 30 B of pinned memory, and a free that does not say its size.
  const auto trace =
      read(strings + kernels + memory_table +
           "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (300, 117440512, 0, 1, 16, 0, 2, 1),"
           " (100, 117440512, 0, 1, 16, 500, 2, 0), (200, 117440512, 0, 1, 32, 700, 2, 0),"
           " (250, 117440512, 0, 1, 48, 30, 1, 0), (400, 117440512, 1, 1, 64, 9, 2, 0);");
  ASSERT_EQ(trace.memory_devices.size(), 2u);
  const MemoryFigures figures = memory_figures(trace, 0);
  EXPECT_EQ(figures.device.id, 0);
  EXPECT_EQ(figures.peak_reserved, 1200_B);
  EXPECT_EQ(figures.final_allocated, 700_B);
  EXPECT_EQ(figures.inconsistent, 0);
  EXPECT_THAT(trace.report.odd, Contains(Pair("are of memory that is not the device's alone", 1)));
}

TEST(NsightReader, AFreeOfWhatWasThereBeforeIsCounted) {
  const auto trace = read(strings + kernels + memory_table +
                          "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES"
                          " (100, 117440512, 0, 1, 16, NULL, 2, 1);");
  EXPECT_THAT(trace.report.odd, Contains(Pair("free memory whose size is not known", 1)));
}

}  // namespace
}  // namespace shardscope
