#include "core/config/deepspeed/lint.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardscope {
namespace {

constexpr const char* clean =
    "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2, \"gradient_clipping\": "
    "1.0,\n"
    " \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 500000000}}";

const Finding* find(const std::vector<Finding>& findings, std::string_view rule) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.rule == rule; });
  return found == findings.end() ? nullptr : &*found;
}

TEST(DeepSpeedLint, SaysNothingOfACleanFile) {
  EXPECT_TRUE(lint_deepspeed_config(clean, "ds.json", {.world = 8}).empty());
}

// 209,715,200 = 200 * 2^20: bytes of 200 MiB, elements of 400 MiB in 16 bits.
TEST(DeepSpeedLint, KnowsBytesFromElements) {
  const auto findings = lint_deepspeed_config(
      "{\"train_batch_size\": 8,\n\"zero_optimization\": {\"stage\": 2,\n \"reduce_bucket_size\": "
      "209715200}}",
      "ds.json");
  const Finding* finding = find(findings, "elements-not-bytes");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->line, 3);
  EXPECT_EQ(finding->key, "zero_optimization.reduce_bucket_size");
  EXPECT_NE(finding->message.find("400 MiB in 16 bits"), std::string::npos) << finding->message;
}

TEST(DeepSpeedLint, TellsTheBatchOfThisWorld) {
  EXPECT_EQ(find(lint_deepspeed_config(clean, "ds.json", {.world = 8}), "batch-size"), nullptr);
  EXPECT_NE(find(lint_deepspeed_config(clean, "ds.json", {.world = 3}), "batch-size"), nullptr);
}

struct Rule {
  std::string text;
  std::string rule;
  Severity severity;
};

class DeepSpeedRules : public testing::TestWithParam<Rule> {};

TEST_P(DeepSpeedRules, AreFound) {
  const auto findings =
      lint_deepspeed_config(GetParam().text, "ds.json",
                            {.world = 16, .ranks_per_node = 8, .model_elements = 20'000'000'000});
  const Finding* finding = find(findings, GetParam().rule);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, GetParam().severity);
  EXPECT_FALSE(finding->message.empty());
  EXPECT_FALSE(finding->mend.empty());
}

std::string with_zero(const std::string& zero) {
  return "{\"train_batch_size\": 16, \"zero_optimization\": {" + zero + "}}";
}

INSTANTIATE_TEST_SUITE_P(
    All, DeepSpeedRules,
    testing::Values(
        Rule{"{// c\n}", "not-json", Severity::warning},
        Rule{"{\"a\": 1, \"a\": 2}", "duplicate-key", Severity::error},
        Rule{"{\"a\"", "unreadable", Severity::error},
        Rule{"{\"zero_optimisation\": {}}", "unknown-key", Severity::warning},
        Rule{with_zero("\"stage\": 3, \"mics_shard_size\": 4"), "removed-key", Severity::error},
        Rule{with_zero("\"stage\": 2, \"cpu_offload\": true"), "deprecated-key", Severity::warning},
        Rule{with_zero("\"reduce_bucket_size\": \"5e8\""), "refused-value", Severity::error},
        Rule{with_zero("\"stage\": \"3\""), "stage-as-text", Severity::warning},
        Rule{with_zero("\"stage\": 2, \"stage3_max_live_parameters\": 1"), "other-stage",
             Severity::warning},
        Rule{with_zero("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}"),
             "offload-param-stage", Severity::error},
        Rule{with_zero("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}"),
             "nvme-without-path", Severity::error},
        Rule{with_zero("\"stage\": 3, \"zero_hpz_partition_size\": 3"), "hpz-size",
             Severity::error},
        Rule{with_zero("\"stage\": 3, \"zero_hpz_partition_size\": 16"), "hpz-size",
             Severity::warning},
        Rule{with_zero("\"stage\": 3, \"stage3_gather_16bit_weights_on_model_save\": true"),
             "full-weights", Severity::warning},
        Rule{with_zero("\"stage\": 3, \"overlap_comm\": \"auto\""), "auto", Severity::warning},
        Rule{"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "two-precisions",
             Severity::error},
        Rule{"{\"train_batch_size\": 16}", "clipping-default", Severity::note}));

}  // namespace
}  // namespace shardscope
