#include "traces/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/traces/sample_traces.h"
#include "traces/memory_fit.h"

namespace shardscope {
namespace {

using samples::two_steps;

RunFacts run_facts() {
  RunFacts facts;
  facts.strategy = "full_shard";
  facts.device_memory = 10_kB;
  facts.tokens_per_step = 200;
  facts.outside = 100_B;
  facts.model_flops = {50'000};
  facts.peak = {1e9};
  facts.mfu_formula = "6 N T";
  facts.low_factor = 0.9;
  facts.high_factor = 1.2;
  facts.assumed = {"dropout off"};
  facts.collectives = {{.kind = "all_gather",
                        .group = "shard",
                        .ranks = 8,
                        .bytes = 64_MB,
                        .times = 3,
                        .time = 196_us,
                        .algorithm = "RING",
                        .protocol = "LL128",
                        .channels = 24}};
  return facts;
}

TEST(Summary, GivesRatesOfTheSteadyStep) {
  const Summary summary = summarize(two_steps(), run_facts());
  EXPECT_EQ(summary.step_time, 100_us);
  EXPECT_EQ(summary.step_time_low, 90_us);
  EXPECT_EQ(summary.step_time_high, 120_us);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 2e6);  // 200 tokens in 100 us, of the whole job
  EXPECT_DOUBLE_EQ(summary.tokens_per_s_per_device, 1e6);
  EXPECT_DOUBLE_EQ(*summary.mfu_share, 0.5);  // 50,000 flops in 100 us are 0.5 of 1 GFLOP/s
}

TEST(Summary, ListsAFirstStepThatTakesLonger) {
  RunFacts facts = run_facts();
  facts.steps = {{.label = "steady", .window = {Duration{}, 100_us}, .memory = {}}};
  facts.first_step_overhead = 40_us;
  const Summary summary = summarize(two_steps(TraceKind::predicted), facts);
  ASSERT_EQ(summary.steps.size(), 2u);
  EXPECT_EQ(summary.steps[0].label, "1");
  EXPECT_EQ(summary.steps[0].time.span, 140_us);
  EXPECT_EQ(summary.steps[0].time.idle, summary.steps[1].time.idle + 40_us);
  EXPECT_EQ(summary.steps[1].label, "steady");
  EXPECT_EQ(summary.step_time, 100_us);
}

TEST(Summary, GivesMemoryWithTheArenaAsReserved) {
  const Summary summary = summarize(two_steps(), run_facts());
  EXPECT_EQ(summary.memory.peak_allocated, 1800_B);
  EXPECT_EQ(summary.memory.peak_reserved, 2000_B);
  EXPECT_EQ(summary.memory.at_operation, "h.0.backward");
}

TEST(Summary, FitsWhenArenaAndOutsideBytesDo) {
  RunFacts facts = run_facts();
  facts.device_memory = 2100_B;  // 2000 of arena and 100 outside
  EXPECT_TRUE(summarize(two_steps(), facts).fits);
  facts.device_memory = 2099_B;
  EXPECT_FALSE(summarize(two_steps(), facts).fits);
}

TEST(Summary, NamesThatAreNoneAreRefused) {
  RunFacts facts = run_facts();
  facts.strategy = std::string(1000, 's');
  const Summary longest = summarize(two_steps(), facts);
  EXPECT_EQ(parse_summary(to_json(longest, "train"), "summary.json").strategy, facts.strategy);
  facts.strategy += 's';
  try {
    parse_summary(to_json(summarize(two_steps(), facts), "train"), "summary.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "summary.json:4: strategy: a name of 1001 bytes; it has 1000 at most");
  }
}

TEST(Summary, HasTheKeysOfTheContract) {
  const auto json = nlohmann::json::parse(to_json(summarize(two_steps(), run_facts()), "simulate"));
  EXPECT_EQ(json["schema"], "shardscope.simulate/1");
  EXPECT_EQ(json["time"]["compute_ns"], 60000);
  EXPECT_EQ(json["time"]["exposed_communication_ns"], 35000);
  EXPECT_EQ(json["time"]["exposed_copy_ns"], 5000);
  EXPECT_EQ(json["time"]["idle_ns"], 0);
  EXPECT_DOUBLE_EQ(json["time"]["overlap_share"], 0.3);  // 15 of 50
  EXPECT_EQ(json["memory"]["at_peak"]["gradients_bytes"], 500);
  EXPECT_EQ(json["memory"]["maximum"]["communication_bytes"], 400);
  EXPECT_EQ(json["steps"].size(), 3u);
  EXPECT_EQ(json["steps"][2]["label"], "steady");
  EXPECT_EQ(json["by_unit"][0]["unit"], "h.0");
  for (const char* key :
       {"strategy", "runtime", "world", "precision", "fits", "device_memory_bytes", "assumed",
        "step_time_ns", "step_time_low_ns", "step_time_high_ns", "tokens_per_s",
        "tokens_per_s_per_device", "mfu_share", "mfu_formula"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes",
                          "arena_bytes", "outside_bytes", "at_operation", "at_peak", "maximum"}) {
    EXPECT_TRUE(json["memory"].contains(key)) << key;
  }
}

TEST(Summary, ReadsBackWhatItWrites) {
  const Summary summary = summarize(two_steps(TraceKind::predicted), run_facts());
  EXPECT_EQ(parse_summary(to_json(summary, "simulate"), "summary.json"), summary);
}

// 9,000 bytes are reserved and 300 asked for, beside 100 outside: 200 more than the device has.
TEST(Summary, OutOfMemoryNeedsWhatWasAskedForAndHasNoTimes) {
  RunFacts facts = run_facts();
  facts.device_memory = 9200_B;
  facts.out_of_memory = OutOfMemorySummary{.step = "setup",
                                           .operation = "lm_head.weight",
                                           .requested = 300_B,
                                           .allocated = 8900_B,
                                           .active = 8900_B,
                                           .reserved = 9000_B,
                                           .free = 100_B};
  const Summary summary = summarize(two_steps(TraceKind::predicted), facts);
  const std::string text = to_json(summary, "simulate");
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["fits_word"], "no");
  EXPECT_EQ(json["needs_bytes"], 9400);
  EXPECT_EQ(json["margin_bytes"], -200);
  for (const char* key : {"step_time_ns", "step_time_low_ns", "step_time_high_ns", "tokens_per_s",
                          "tokens_per_s_per_device"})
    EXPECT_TRUE(json[key].is_null()) << key;
  EXPECT_EQ(parse_summary(text, "summary.json"), summary);
}

/// 9,000 bytes of an arena and 100 outside, of a device of 10,000; 3 and 4 hundred more or none
/// less.
RunFacts uncertain_facts() {
  RunFacts facts = run_facts();
  facts.arena = 9000_B;
  facts.allowances = {{.item = "a", .below = {}, .above = 300_B, .source = "hand"},
                      {.item = "b", .below = {}, .above = 400_B, .source = "hand"}};
  return facts;
}

// sqrt(300^2 + 400^2) = 500 above 9,100; nothing lies below.
TEST(Summary, HasABandOfMemoryWhoseSquaresAdd) {
  const Summary summary = summarize(two_steps(TraceKind::predicted), uncertain_facts());
  const std::string text = to_json(summary, "simulate");
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["needs_bytes"], 9100);
  EXPECT_EQ(json["memory_low_bytes"], 9100);
  EXPECT_EQ(json["memory_high_bytes"], 9600);
  EXPECT_EQ(json["memory_allowances"][1]["above_bytes"], 400);
  EXPECT_EQ(parse_summary(text, "summary.json"), summary);
}

TEST(Summary, ExactMemoryHasNoWidth) {
  const auto json = nlohmann::json::parse(to_json(summarize(two_steps(), run_facts()), "simulate"));
  EXPECT_EQ(json["memory_low_bytes"], json["needs_bytes"]);
  EXPECT_EQ(json["memory_high_bytes"], json["needs_bytes"]);
}

// 9,600 at most: of 9,500 bytes it may be too much, though 9,100 fit and no margin was asked for.
TEST(Summary, IsTightWhereTheBandReachesBeyondTheDevice) {
  Summary summary = summarize(two_steps(TraceKind::predicted), uncertain_facts());
  summary.margin = 0_B;
  EXPECT_EQ(memory_fit(summary), MemoryFit::yes);
  summary.device_memory = 9500_B;
  EXPECT_EQ(memory_fit(summary), MemoryFit::tight);
  EXPECT_TRUE(leaves_margin(summary));
}

// 4% of 50 GiB are 2 GiB; a band of 3 GiB wants more, but not where somebody says how much.
TEST(Summary, TheUsualMarginIsAtLeastTheBand) {
  Summary summary;
  summary.device_memory = 50_GiB;
  summary.memory.peak_reserved = 40_GiB;
  EXPECT_EQ(margin_wanted(summary), usual_margin(50_GiB));
  summary.allowances = {{.item = "a", .below = {}, .above = 3_GiB, .source = "hand"}};
  EXPECT_EQ(margin_wanted(summary), 3_GiB);
  summary.margin = 1_GiB;
  EXPECT_EQ(margin_wanted(summary), 1_GiB);
}

TEST(Summary, NamesFileAndKeyOfWhatIsWrong) {
  std::string text = to_json(summarize(two_steps(), run_facts()), "simulate");
  text.replace(text.find("\"world\": 2"), 10, "\"world\": \"\"");
  try {
    (void)parse_summary(text, "summary.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("summary.json:6: world"));
  }
}

}  // namespace
}  // namespace shardscope
