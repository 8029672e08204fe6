#include "traces/import/device_activity.h"

#include <gtest/gtest.h>

#include "tests/traces/chrome_text.h"
#include "traces/import/classification.h"
#include "traces/import/collectives.h"
#include "traces/import/host_activity.h"

namespace shardscope {
namespace {

using samples::chrome_text;
using samples::imported;
using samples::kernel;

std::string memset_event(std::string_view start, std::string_view duration) {
  return R"j({"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 9, "ts": )j" +
         std::string(start) + R"(, "dur": )" + std::string(duration) +
         R"(, "args": {"device": 0, "stream": 9, "bytes": 64}})";
}

/// gemm [0, 10) and [8, 12) on two streams, NCCL [11, 20), a memset [18, 24), gemm [30, 31).
ImportedTrace small_trace() {
  return imported(chrome_text(kernel("gemm", 7, "0", "10") + "," + kernel("gemm", 8, "8", "4") +
                              "," + kernel("ncclDevKernel_AllReduce_Sum_f32", 20, "11", "9") + "," +
                              memset_event("18", "6") + "," + kernel("gemm", 7, "30", "1")));
}

TEST(DeviceActivity, AccountsForEveryNanosecondOfTheSpan) {
  const DeviceFigures figures = device_figures(device_activities(small_trace()).at(0));
  EXPECT_EQ(figures.time.span.ns, 31000);
  EXPECT_EQ(figures.time.compute.ns, 13000);  // [0, 12) and [30, 31): not the sum, 15
  EXPECT_EQ(figures.time.overlap.ns, 1000);
  EXPECT_EQ(figures.time.exposed_communication.ns, 8000);
  EXPECT_EQ(figures.time.exposed_copy.ns, 4000);  // [20, 24): a memset is a copy
  EXPECT_EQ(figures.time.idle.ns, 6000);
  EXPECT_EQ(figures.sum_of_compute.ns, 15000);
  EXPECT_EQ(figures.memsets, 1);
}

TEST(DeviceActivity, FollowsTraceLensWhereItCountsMemsetAsCompute) {
  ImportedTrace trace = small_trace();
  classify(trace, class_rules(Definitions::trace_lens));
  const DeviceFigures figures = device_figures(device_activities(trace).at(0));
  EXPECT_EQ(figures.time.compute.ns, 19000);  // [0, 12), [18, 24), [30, 31)
  EXPECT_EQ(figures.time.exposed_copy.ns, 0);
}

std::string host_span(std::string_view category, std::string_view name, int thread, int begin,
                      int length) {
  return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + std::string(name) +
         R"(", "pid": 1, "tid": )" + std::to_string(thread) + R"(, "ts": )" +
         std::to_string(begin) + R"(, "dur": )" + std::to_string(length) + "}";
}

// Thread 1 computes [0, 10), within it [2, 4), and [20, 25); thread 2 communicates [8, 14), and
// waits for something else [13, 16). In the file the threads' spans are mixed and out of order.
TEST(HostActivity, AccountsForThreadsThatOverlap) {
  const HostFigures figures =
      host_figures(imported(chrome_text(host_span("cpu_op", "aten::mm", 1, 20, 5) + "," +
                                        host_span("user_annotation", "nccl:all_reduce", 2, 8, 6) +
                                        "," + host_span("cpu_op", "aten::mm", 1, 0, 10) + "," +
                                        host_span("python_function", "wait", 2, 13, 3) + "," +
                                        host_span("cpu_op", "aten::empty", 1, 2, 2))));
  EXPECT_EQ(figures.events, 5);
  EXPECT_EQ(figures.threads, 2);
  EXPECT_EQ(figures.window->begin.ns, 0);
  EXPECT_EQ(figures.window->end.ns, 25'000);
  EXPECT_EQ(figures.busy.ns, 21'000);  // [0, 16) and [20, 25)
  EXPECT_EQ(figures.calling.ns, 6'000);
  EXPECT_EQ(figures.time.span.ns, 25'000);
  EXPECT_EQ(figures.time.compute.ns, 15'000);
  EXPECT_EQ(figures.time.communication.ns, 6'000);
  EXPECT_EQ(figures.time.overlap.ns, 2'000);  // [8, 10)
  EXPECT_EQ(figures.time.exposed_communication.ns, 4'000);
  EXPECT_EQ(figures.time.idle.ns, 6'000);
}

TEST(Classification, KnowsCommunicationThatNoPrefixTells) {
  const auto trace = imported(chrome_text(
      kernel("void dpsk::ep::internode::dispatch<8>()", 1, "0", "1") + "," +
      kernel("RcclKernel_Generic", 1, "2", "1") + "," + kernel("hipKernel", 1, "4", "1")));
  EXPECT_EQ(trace.events.span_class[0], SpanClass::communication);
  EXPECT_EQ(trace.events.span_class[1], SpanClass::communication);
  EXPECT_EQ(trace.events.span_class[2], SpanClass::compute);
}

TEST(Classification, HtaGoesByTheStartOfNamesAndTheirCase) {
  auto trace = imported(chrome_text(
      kernel("ncclDevKernel_AllReduce", 1, "0", "1") + "," + kernel("ncclSomething", 1, "2", "1") +
      "," + kernel("copy_async_kernel", 1, "4", "1") + "," + kernel("Stream Sync", 1, "6", "1") +
      "," + memset_event("8", "1")));
  classify(trace, class_rules(Definitions::hta));
  EXPECT_EQ(trace.events.span_class[0], SpanClass::communication);
  EXPECT_EQ(trace.events.span_class[1], SpanClass::compute);
  EXPECT_EQ(trace.events.span_class[2], SpanClass::compute);
  EXPECT_EQ(trace.events.span_class[3], SpanClass::host);
  EXPECT_EQ(trace.events.span_class[4], SpanClass::copy);
}

TEST(Classification, RulesReadBackFromTheirFile) {
  const ClassRules rules = class_rules(Definitions::hta);
  EXPECT_EQ(parse_class_rules(to_json(rules), "rules.json"), rules);
}

std::string nccl_kernel(std::string_view collective, std::string_view sizes) {
  std::string text = kernel("ncclDevKernel_Generic", 20, "0", "2");
  text.resize(text.size() - 2);
  return text + R"(, "Collective name": ")" + std::string(collective) +
         R"(", "dtype": "Float", "Group size": 4, )" + std::string(sizes) + "}}";
}

TEST(Collectives, BusBandwidthOfAnAllReduceCountsItTwice) {
  const auto trace = imported(
      chrome_text(nccl_kernel("allreduce", R"("In msg nelems": 1000, "Out msg nelems": 1000)")));
  const auto collective = imported_collectives(trace).at(0);
  EXPECT_EQ(collective.kind, OperationKind::all_reduce);
  EXPECT_DOUBLE_EQ(bus_bandwidth(collective)->bytes_per_s, 3e9);  // 4,000 B * 2 * 3/4 / 2 us
}

TEST(Collectives, BusBandwidthOfAnAllGatherIsOfTheGatheredSize) {
  const auto trace = imported(chrome_text(
      nccl_kernel("_allgather_base", R"("In msg nelems": 250, "Out msg nelems": 1000)")));
  const auto collective = imported_collectives(trace).at(0);
  EXPECT_EQ(collective.kind, OperationKind::all_gather);
  EXPECT_DOUBLE_EQ(bus_bandwidth(collective)->bytes_per_s, 1.5e9);  // 4,000 B * 3/4 / 2 us
}

TEST(Collectives, TakesElementsOfOperatorsFromTheirSchema) {
  const std::string gather =
      R"({"ph": "X", "cat": "cpu_op", "name": "c10d::_allgather_base_", "pid": 1, "tid": 2, "ts": 0, "dur": 1, "args": {"Input Dims": [[8, 3], [4, 3], [], [], []]}})";
  const std::string list =
      R"({"ph": "X", "cat": "cpu_op", "name": "c10d::allgather_", "pid": 1, "tid": 2, "ts": 2, "dur": 1, "args": {"Input Dims": [[], [[5], [7]], []]}})";
  const auto collectives = imported_collectives(imported(chrome_text(gather + "," + list)));
  EXPECT_EQ(collectives.at(0).elements_in, 12);
  EXPECT_EQ(collectives.at(0).elements_out, 24);
  EXPECT_EQ(collectives.at(1).elements_in, 12);
  EXPECT_EQ(collectives.at(1).elements_out, std::nullopt);
}

}  // namespace
}  // namespace shardscope
