// shardscope fit: a run of ours, and a trace made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

/// The figure `key` of a profile made up for these tests.
std::string figure(const std::string& key, const std::string& value) {
  return "\"" + key + R"(": {"value": ")" + value +
         R"(", "origin": "assumed", "source": "a test", "date": "2026-11-21"},)";
}

/// `peak` and `memory_bandwidth` are of the device.
std::string profile(const std::string& device, const std::string& peak,
                    const std::string& bandwidth) {
  return R"({"schema": "shardscope.hardware/1", "name": "round numbers", "source": "made up", "device": ")" +
         device + "\"," + figure("memory", "8 GB") + figure("peak", peak) +
         figure("peak_bfloat16", "1000 TFLOP/s") + figure("memory_bandwidth", bandwidth) +
         figure("operation_overhead", "10 us") +
         R"("link": {"bandwidth": "100 GB/s", "latency": "0 us", "origin": "assumed", "source": "a test",
             "date": "2026-11-21"}})";
}

/// Rank 0 of 2, as PyTorch's profiler writes it: a bfloat16 product of 1000 x 2000 by 2000 x 1000
/// in 16 us (4 GFLOP: 250 TFLOP/s), launched in 5 us, and an all-gather of 4,000,000 bfloat16 by 2
/// ranks in 160 us (half of 8 MB: 25 GB/s).
constexpr const char* trace_by_hand =
    R"({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2},
"traceEvents": [
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 30,
  "args": {"External id": 1, "Input Dims": [[1000, 2000], [2000, 1000]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10, "dur": 5,
  "args": {"External id": 1, "correlation": 7}},
 {"ph": "X", "cat": "kernel", "name": "ampere_bf16_s16816gemm_bf16_128x128", "pid": 0, "tid": 7, "ts": 20, "dur": 16,
  "args": {"External id": 1, "correlation": 7, "device": 0, "stream": 7}},
 {"ph": "X", "cat": "kernel", "name": "vectorized_elementwise_kernel", "pid": 0, "tid": 7, "ts": 40, "dur": 9,
  "args": {"correlation": 9, "device": 0, "stream": 7}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "pid": 0, "tid": 20, "ts": 60, "dur": 160,
  "args": {"correlation": 8, "device": 0, "stream": 20, "Collective name": "_allgather_base", "In msg nelems": 2000000,
           "Out msg nelems": 4000000, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0",
           "Process Group Ranks": "[0, 1]"}}
]})";

class Fitting : public ::testing::Test {
 protected:
  Fitting() {
    // So slow that a real run corrects it however busy this machine is.
    workplace_.write("cpu.json", profile("cpu", "100 MFLOP/s", "10 MB/s"));
    workplace_.write("gpu.json", profile("cuda", "100 GFLOP/s", "10 GB/s"));
    workplace_.write("trace.json", trace_by_hand);
  }
  static double factor(const Json& json, const std::string& name) {
    for (const Json& constant : json["constants"])
      if (constant["name"] == name) return constant["factor"];
    ADD_FAILURE() << "no constant " << name;
    return 0;
  }
  void train() const {
    set_up_tiny_job(workplace_);
    const Outcome outcome =
        workplace_.run("train job.json --device cpu --cluster cpu.json --steps 6 --quiet -o run");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
  }
  Workplace workplace_;
};

TEST_F(Fitting, AForeignTraceCorrectsADataSheet) {
  const Outcome outcome = workplace_.run("fit trace.json --cluster gpu.json --json -o fitted.json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["schema"], "shardscope.fit/1");
  EXPECT_NEAR(factor(json, "peak_bfloat16"), 0.25, 1e-6);
  EXPECT_NEAR(factor(json, "link.bandwidth"), 0.25, 1e-4);
  EXPECT_NEAR(factor(json, "operation_overhead"), 0.5, 1e-6);
  // 12 of 16 us and 120 of 160 us were predicted wrongly.
  EXPECT_NEAR(json["residual_before_share"], 132.0 / 176, 1e-4);
  EXPECT_LT(json["residual_after_share"], 1e-3);
  EXPECT_EQ(json["held_out"], false);
  const Json fitted = Json::parse(workplace_.read("fitted.json"));
  EXPECT_EQ(fitted["peak_bfloat16"]["value"], "250 TFLOP/s");
  EXPECT_EQ(fitted["peak_bfloat16"]["origin"], "measured");
  EXPECT_EQ(fitted["peak_bfloat16"]["source"], "fitted to trace.json");
  EXPECT_EQ(fitted["peak"]["origin"], "assumed");
}

/// What corrects a data sheet must reach the predictions: with the fitted profile a large product
/// takes what it took, and nothing is left to correct but latencies.
TEST_F(Fitting, ADataSheetsPeakIsCorrectedWherePredictionsTakeIt) {
  std::string large = trace_by_hand;
  const auto put = [&](const std::string& old, const std::string& now) {
    large.replace(large.find(old), old.size(), now);
  };
  put("[[1000, 2000], [2000, 1000]]", "[[8192, 8192], [8192, 8192]]");
  put(R"("ts": 20, "dur": 16)", R"("ts": 20, "dur": 5500)");  // 1.0995 TFLOP: 200 TFLOP/s
  workplace_.write("large.json", large);
  const Outcome outcome =
      workplace_.run("fit large.json --cluster a100_80gb --json -o fitted.json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_LT(factor(Json::parse(outcome.output), "peak_bfloat16"), 0.95);
  const Outcome again = workplace_.run("fit large.json --cluster fitted.json --json");
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_NEAR(factor(Json::parse(again.output), "peak_bfloat16"), 1, 0.02);
}

TEST_F(Fitting, KernelsWhoseWorkIsNotKnownAreSaidToBeLeftOut) {
  const Outcome outcome = workplace_.run("fit trace.json --cluster gpu.json");
  EXPECT_THAT(outcome.output, HasSubstr("9.00 us of memory_bound kernels was not used"));
}

TEST_F(Fitting, ARunOfOursCorrectsTheProfileThatPredictedIt) {
  train();
  const Outcome outcome = workplace_.run("fit run --json -o fitted.json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["held_out"], true);
  EXPECT_LT(json["residual_after_share"], json["residual_before_share"]);
  EXPECT_GT(factor(json, "kernels linear_forward"), 0);
  const Outcome again =
      workplace_.run("simulate --job job.json --world 2 --cluster fitted.json --json --quiet");
  EXPECT_EQ(again.code, 0) << again.errors;
}

TEST_F(Fitting, SaysInOneLineWhatIsMissing) {
  workplace_.write("host.json", R"({"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 30}]})");
  const std::pair<const char*, const char*> cases[] = {
      {"fit host.json --cluster gpu.json", "has no GPU operations"},
      {"fit trace.json --cluster cpu.json", "is of a GPU, and the profile round numbers is of cpu"},
      {"fit trace.json", "there is no profile to correct"},
      {"fit", "no run was given"},
  };
  for (const auto& [arguments, text] : cases) {
    const Outcome outcome = workplace_.run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(text));
  }
}

TEST_F(Fitting, ARunOfAnotherDeviceIsRefused) {
  train();
  const Outcome outcome = workplace_.run("fit run --cluster gpu.json -o fitted.json");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("ran on cpu, and the profile round numbers is of cuda"));
  EXPECT_FALSE(workplace_.has("fitted.json"));
}

}  // namespace
}  // namespace shardscope::testing
