#include "traces/import/idle_causes.h"

#include <gtest/gtest.h>

#include "tests/traces/chrome_text.h"
#include "traces/import/device_activity.h"

namespace shardscope {
namespace {

using samples::chrome_text;
using samples::imported;

/// A kernel on a stream, and the call that launched it; microseconds.
std::string launched(int correlation, std::string_view name, int stream, int launch, int begin,
                     int length) {
  const std::string link = std::to_string(correlation), on = std::to_string(stream);
  return R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": )" +
         std::to_string(launch) + R"(, "dur": 1, "args": {"correlation": )" + link +
         R"(}}, {"ph": "X", "cat": "kernel", "name": ")" + std::string(name) +
         R"(", "pid": 0, "tid": )" + on + R"(, "ts": )" + std::to_string(begin) + R"(, "dur": )" +
         std::to_string(length) + R"(, "args": {"device": 0, "stream": )" + on +
         R"(, "correlation": )" + link + "}}";
}

/// On stream 7: [100, 200) and what comes next; on stream 20 a collective [150, 300).
std::vector<IdleTime> idle_before(const std::string& next) {
  const ImportedTrace trace =
      imported(chrome_text(launched(1, "gemm", 7, 90, 100, 100) + "," +
                           launched(2, "ncclDevKernel_AllReduce", 20, 95, 150, 150) + "," + next));
  return idle_times(trace, device_activities(trace).at(0));
}

/// Of the kernel's stream; the device's comes first.
IdleTime of_stream(const std::vector<IdleTime>& idle) { return idle.at(1); }

TEST(IdleCauses, WaitsForTheCollectiveThatEndedJustBefore) {
  const IdleTime idle = of_stream(idle_before(launched(3, "gemm", 7, 110, 305, 10)));
  EXPECT_EQ(idle.of(IdleCause::communication).ns, 105000);  // [200, 305)
  EXPECT_EQ(idle.total().ns, 105000);
  EXPECT_EQ(idle.gaps, 1);
}

TEST(IdleCauses, WaitsForTheHostThatLaunchedAfterTheCollective) {
  const IdleTime idle = of_stream(idle_before(launched(3, "gemm", 7, 302, 305, 10)));
  EXPECT_EQ(idle.of(IdleCause::host).ns, 105000);
  EXPECT_EQ(idle.of(IdleCause::communication).ns, 0);
}

TEST(IdleCauses, ACollectiveThatEndedLongAgoIsNoCause) {
  const IdleTime idle = of_stream(idle_before(launched(3, "gemm", 7, 110, 340, 10)));
  EXPECT_EQ(idle.of(IdleCause::communication).ns, 0);
  EXPECT_EQ(idle.of(IdleCause::other).ns, 140000);
}

TEST(IdleCauses, ShortGapsLieBetweenKernels) {
  const IdleTime idle = of_stream(idle_before(launched(3, "gemm", 7, 110, 229, 10)));
  EXPECT_EQ(idle.of(IdleCause::kernel_gap).ns, 29000);
}

TEST(IdleCauses, WaitsForAKernelOfAnotherStream) {
  const IdleTime idle = of_stream(idle_before(launched(3, "gemm", 8, 100, 110, 200) + "," +
                                              launched(4, "gemm", 7, 110, 312, 10)));
  EXPECT_EQ(idle.of(IdleCause::compute).ns, 112000);  // the collective ended before that kernel
}

TEST(IdleCauses, OfTheDeviceAreWhatNoStreamCovers) {
  const auto idle = idle_before(launched(3, "gemm", 7, 302, 305, 10));
  EXPECT_FALSE(idle.front().stream.has_value());
  EXPECT_EQ(idle.front().total().ns, 5000);  // [300, 305)
  EXPECT_EQ(idle.front().of(IdleCause::host).ns, 5000);
  EXPECT_EQ(idle.at(2).span_class, SpanClass::communication);
}

}  // namespace
}  // namespace shardscope
