// shardscope report --folded
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;

/// A kernel of 3 us that aten::mm launches within a module, by the profiler's Python frames.
constexpr const char* trace = R"({"schemaVersion": 1, "distributedInfo": {"rank": 4},
  "traceEvents": [
    {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 1, "tid": 1,
     "ts": 0, "dur": 9},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 7},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2,
     "dur": 1, "args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 3,
     "args": {"device": 0, "stream": 7, "correlation": 1}}]})";

TEST(ReportFolded, WritesAPathForEachKernelOfAForeignTrace) {
  const Workplace workplace;
  workplace.write("t.pt.trace.json", trace);
  const Outcome outcome = workplace.run("report t.pt.trace.json --folded t.folded");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(workplace.read("t.folded"), "forward;Linear_0;aten::mm;gemm 3000\n");
}

TEST(ReportFolded, OfAPredictionHasItsModules) {
  const Workplace workplace;
  workplace.write("model/config.json", tiny_config());
  ASSERT_EQ(workplace
                .run("simulate --model model --world 2 --batch 1 --seq 8 --cluster h100_sxm "
                     "--runtime fsdp2 -o run")
                .code,
            0);
  ASSERT_EQ(workplace.run("report run --folded run.folded").code, 0);
  EXPECT_THAT(workplace.read("run.folded"),
              HasSubstr("forward;transformer;h.1;mlp;c_fc;aten.addmm.default "));
}

TEST(ReportFolded, NeverWritesOverWhatItReads) {
  const Workplace workplace;
  workplace.write("t.json", trace);
  const Outcome outcome = workplace.run("report t.json --folded ./t.json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--folded"));
  EXPECT_EQ(workplace.read("t.json"), trace);
}

TEST(ReportFolded, IsNotTheFileOfTheReport) {
  const Workplace workplace;
  workplace.write("t.json", trace);
  const Outcome outcome = workplace.run("report t.json --folded ./both.txt -o both.txt");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("-o names the same file"));
  EXPECT_FALSE(workplace.has("both.txt"));
}

}  // namespace
}  // namespace shardscope::testing
