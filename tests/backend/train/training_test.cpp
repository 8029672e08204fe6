// Whole training jobs in real processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "backend/train/train.h"
#include "core/base/bfloat16.h"
#include "core/format/json_reader.h"
#include "core/model/model_weights.h"
#include "core/model/read_model.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/train/running_job.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

using shardscope::testing::endless;
using shardscope::testing::RankOutcome;
using shardscope::testing::run_ranks;
using shardscope::testing::RunningJob;
using shardscope::testing::train_beside;

struct SameLosses {
  std::string_view name;
  std::string_view config;
  int ranks;
  Precision precision = Precision::fp32;
};
void PrintTo(const SameLosses& c, std::ostream* out) {
  *out << c.name << " on " << c.ranks << " in " << name_of(c.precision);
}

using TrainingTest = TrainingFixture;

class StrategiesTest : public TrainingFixture, public ::testing::WithParamInterface<SameLosses> {};

TEST_P(StrategiesTest, GiveBitEqualLossesAndNorms) {
  const auto [name, config, ranks, precision] = GetParam();
  const auto run = [&, config = config, ranks = ranks, precision = precision](
                       int world, ShardingStrategy sharding, const std::string& output) {
    Job one = job(config, world, sharding, output);
    one.strategy.precision = precision;
    // Six ranks need six sequences, and their sum in pairs is that of shards of two.
    if (ranks == 6) one.batch = 6 / world;
    if (ranks == 6 && is_hybrid(sharding)) one.strategy.mesh = {.replicate = 3, .shard = 2};
    return run_forked(one);
  };
  using enum ShardingStrategy;
  const auto reference = run(ranks, no_shard, "no_shard");
  ASSERT_EQ(reference.size(), 100U);
  EXPECT_LT(reference[98], reference[0] - 1);
  for (const ShardingStrategy sharding :
       {zero1, shard_grad_op, full_shard, hybrid_shard, hybrid_shard_zero2}) {
    // Sums of bfloat16 over shards and then over replicas are rounded twice.
    if (is_hybrid(sharding) && (ranks < 4 || precision == Precision::bf16)) continue;
    EXPECT_EQ(run(ranks, sharding, std::string(name_of(sharding))), reference) << name_of(sharding);
  }
  const auto single = run(1, no_shard, "single");
  ASSERT_EQ(single.size(), reference.size());
  // In bfloat16 a last digit that falls another way is a difference of 2^-9.
  const double rounding = precision == Precision::fp32 ? 1e-5 : 0.02;
  for (std::size_t i = 0; i < single.size(); ++i)
    ASSERT_NEAR(single[i], reference[i], rounding * reference[i]) << i / 2;
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels, StrategiesTest,
    ::testing::Values(SameLosses{"gpt2", tiny_gpt2, 2}, SameLosses{"gpt2", tiny_gpt2, 4},
                      SameLosses{"llama", tiny_llama, 2}, SameLosses{"llama", tiny_llama, 4},
                      SameLosses{"gpt2", tiny_gpt2, 4, Precision::bf16_mixed},
                      SameLosses{"llama", tiny_llama, 2, Precision::bf16_mixed},
                      SameLosses{"gpt2", tiny_gpt2, 2, Precision::bf16},
                      SameLosses{"llama", tiny_llama, 4, Precision::bf16},
                      SameLosses{"gpt2", tiny_gpt2, 2, Precision::bf16_mixed},
                      SameLosses{"llama", tiny_llama, 4, Precision::bf16_mixed},
                      SameLosses{"gpt2", tiny_gpt2, 4, Precision::bf16},
                      SameLosses{"llama", tiny_llama, 2, Precision::bf16},
                      SameLosses{"gpt2", tiny_gpt2, 6}, SameLosses{"llama", tiny_llama, 6},
                      SameLosses{"gpt2", tiny_gpt2, 6, Precision::bf16_mixed},
                      SameLosses{"llama", tiny_llama, 6, Precision::bf16_mixed},
                      SameLosses{"gpt2", tiny_gpt2, 6, Precision::bf16},
                      SameLosses{"llama", tiny_llama, 6, Precision::bf16}));

// When units are gathered, which blocks they have and what is run again changes no sum.
TEST_F(TrainingTest, PrefetchUnitsAndCheckpointingGiveTheSameBits) {
  for (const std::string_view config : {tiny_gpt2, tiny_llama}) {
    const auto run = [&](const std::string& output, std::string_view wrap,
                         std::string_view prefetch, std::string_view checkpointing) {
      Job one = job(config, 2, ShardingStrategy::full_shard, output);
      one.steps = 30;
      one.strategy.wrap = parse_wrap(wrap, "wrap");
      one.strategy.prefetch = parse_prefetching(prefetch, "prefetch");
      one.strategy.checkpointing = parse_checkpointing(checkpointing, "checkpointing");
      return run_forked(one);
    };
    const auto plain = run("plain", "transformer", "on", "none");
    EXPECT_EQ(run("post", "transformer", "backward_post", "none"), plain);
    EXPECT_EQ(run("pre", "transformer", "backward_pre=2", "every:2"), plain);
    EXPECT_EQ(run("deep", "transformer", "forward=3,backward_pre=3,limit=2", "selective"), plain);
    EXPECT_EQ(run("hand", "blocks:0+2,1", "on", "selective+first:1"), plain);
    EXPECT_EQ(run("size", "size:20000", "off", "full"), plain);
  }
}

// Less than a step without recomputation takes: something is run again.
TEST_F(TrainingTest, AMemoryBudgetGivesTheSameBits) {
  for (const std::string_view config : {tiny_gpt2, tiny_llama}) {
    Job plain = job(config, 2, ShardingStrategy::full_shard, "plain");
    plain.steps = 10;
    const auto arena_of = [](const Job& done) {
      return JsonValue::read_file(done.output / "summary.json")
          .at("memory")
          .at("arena_bytes")
          .integer();
    };
    const auto expected = run_forked(plain);
    Job within = plain;
    within.output = plain.output.parent_path() / "within";
    within.memory_budget = {arena_of(plain) / 100 * 95};
    EXPECT_EQ(run_forked(within), expected);
    EXPECT_LT(arena_of(within), arena_of(plain));
  }
}

// The host's update is the device's, on memory that lies elsewhere.
TEST_F(TrainingTest, OffloadGivesTheSameBits) {
  using enum ShardingStrategy;
  for (const Precision precision : {Precision::fp32, Precision::bf16_mixed}) {
    const auto run = [&](int ranks, ShardingStrategy sharding, Offload offload) {
      Job one = job(tiny_gpt2, ranks, sharding,
                    fmt::format("{}_{}_{}", ranks, name_of(sharding), name_of(offload)));
      one.steps = 10;
      one.accumulate = 2;
      one.strategy.precision = precision;
      one.strategy.offload = offload;
      return run_forked(one);
    };
    for (const int ranks : {1, 4}) {
      for (const ShardingStrategy sharding :
           {no_shard, zero1, shard_grad_op, full_shard, hybrid_shard, hybrid_shard_zero2}) {
        if (is_hybrid(sharding) && ranks < 4) continue;
        const auto plain = run(ranks, sharding, Offload::none);
        EXPECT_EQ(run(ranks, sharding, Offload::optimizer), plain) << name_of(sharding);
        if (sharding != full_shard && sharding != hybrid_shard) continue;
        EXPECT_EQ(run(ranks, sharding, Offload::all), plain) << name_of(sharding);
      }
    }
  }
}

// A group with the usual rate and decay is the same update in parts; one of rate 0 stays.
TEST_F(TrainingTest, ParameterGroupsHaveTheirOwnRateAndDecay) {
  const auto job_of = [&](const std::string& output, std::vector<ParameterGroup> groups) {
    Job one = job(tiny_llama, 2, ShardingStrategy::full_shard, output);
    one.steps = 10;
    one.optimizer.groups = std::move(groups);
    return one;
  };
  const auto plain = run_forked(job_of("plain", {}));
  EXPECT_EQ(run_forked(job_of("same", {{.pattern = "mlp"}, {.pattern = "norm"}})), plain);
  EXPECT_NE(run_forked(job_of("other", {{.pattern = "mlp", .weight_decay = 0.5}})), plain);
  const Job still = job_of("still", {{.pattern = "norm", .rate = 0}});
  run_forked(still);
  const Model model = read_model(still.output / "model");
  const ModelWeights weights(still.output / "model", model);
  std::vector<float> norm(32);
  weights.read(model.find("model.norm.weight"), 0, norm);
  EXPECT_EQ(norm, std::vector<float>(32, 1));  // as the weights of norms start
}

TEST_F(TrainingTest, AccumulatesOverMicroBatches) {
  const auto whole = run_forked(job(tiny_gpt2, 2, ShardingStrategy::full_shard, "whole"));
  Job parts = job(tiny_gpt2, 2, ShardingStrategy::full_shard, "parts");
  parts.batch = 1;
  parts.accumulate = 2;
  const auto accumulated = run_forked(parts);
  ASSERT_EQ(accumulated.size(), whole.size());
  // The same tokens in another order of rows: equal but for rounding.
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_NEAR(accumulated[i], whole[i], 1e-5 * whole[i]) << i / 2;
}

TEST_F(TrainingTest, LeavesAModelThatStartsTheNextRun) {
  Job first = job(tiny_llama, 2, ShardingStrategy::full_shard, "first");
  first.steps = 3;
  run_forked(first);
  const Model model = read_model(first.output / "model");
  const ModelWeights weights(first.output / "model", model);
  std::vector<float> norm(32);
  weights.read(model.find("model.norm.weight"), 0, norm);
  EXPECT_NE(norm[0], 1);
  EXPECT_NEAR(norm[0], 1, 0.1);

  Job second = job(tiny_llama, 1, ShardingStrategy::no_shard, "second");
  second.model = first.output / "model";
  second.weights = StartWeights::pretrained;
  second.steps = 1;
  second.token_start = 3 * 64;
  Job longer = job(tiny_llama, 2, ShardingStrategy::full_shard, "longer");
  longer.steps = 4;
  EXPECT_NEAR(run_forked(second)[0], run_forked(longer)[6], 1e-6);
}

TEST_F(TrainingTest, SavesTheMasterCopyOfMixedPrecision) {
  const auto saved = [&](Precision precision, ShardingStrategy sharding, const char* output) {
    Job mixed = job(tiny_llama, 2, sharding, output);
    mixed.steps = 2;
    mixed.strategy.precision = precision;
    run_forked(mixed);
    const Model model = read_model(mixed.output / "model");
    const ModelWeights weights(mixed.output / "model", model);
    std::vector<float> head(256 * 32);
    weights.read(model.find("lm_head.weight"), 0, head);
    return head;
  };
  using enum ShardingStrategy;
  const auto has_bfloat16 = [](float x) { return to_float(to_bfloat16(x)) == x; };
  const auto master = saved(Precision::bf16_mixed, full_shard, "full");
  EXPECT_LT(std::ranges::count_if(master, has_bfloat16), 100);
  EXPECT_EQ(saved(Precision::bf16_mixed, zero1, "zero1"), master);
  EXPECT_EQ(saved(Precision::bf16_mixed, no_shard, "no_shard"), master);
  EXPECT_TRUE(std::ranges::all_of(saved(Precision::bf16, full_shard, "pure"), has_bfloat16));
}

TEST_F(TrainingTest, LeavesTheRunFolderOfTheContract) {
  Job small = job(tiny_gpt2, 2, ShardingStrategy::full_shard, "run");
  small.steps = 3;
  run_forked(small);
  for (const char* name : {"job.json", "metrics.jsonl", "summary.json", "trace.0.json.gz",
                           "trace.1.json.gz", "model/config.json", "model/model.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(small.output / name)) << name;
  }
}

TEST_F(TrainingTest, StopsAfterTheStepInHandAndSaves) {
  const Job one = endless(job(tiny_gpt2, 2, ShardingStrategy::full_shard, "run"));
  // Only one rank hears of it.
  const auto outcomes = train_beside(one, 1, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return !metrics(one).empty(); }));
    running.end_by(SIGTERM);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 130) << outcome.message;
  EXPECT_GE(metrics(one).size(), 2U);
  EXPECT_NO_THROW(ModelWeights(one.output / "model", read_model(one.output / "model")));
}

TEST_F(TrainingTest, NamesTheStepInWhichTheNumbersWentBad) {
  Job wild = job(tiny_gpt2, 2, ShardingStrategy::full_shard, "run");
  wild.learning_rate = {.kind = LearningRate::Kind::constant, .peak = 1e30};
  const auto outcomes = run_ranks(
      2, [&](const Environment& environment) { return train(wild, environment, {.quiet = true}); });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 5);
  // One of them says it for all.
  EXPECT_NE(outcomes[0].message.empty(), outcomes[1].message.empty());
  EXPECT_THAT(outcomes[0].message + outcomes[1].message, ::testing::HasSubstr("step 2"));
}

TEST_F(TrainingTest, LosesAPeerLongBeforeTheDeadline) {
  const Job one = endless(job(tiny_gpt2, 2, ShardingStrategy::full_shard, "run"));
  const auto begin = std::chrono::steady_clock::now();
  const auto outcomes = train_beside(one, 1, [&](const RunningJob& running) {
    EXPECT_TRUE(running.until([&] { return !metrics(one).empty(); }));
    running.end_by(SIGKILL);
  });
  EXPECT_EQ(outcomes[0].exit_code, 4);
  EXPECT_THAT(outcomes[0].message, ::testing::HasSubstr("rank 1"));
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(TrainingTest, SaysWhichFolderCannotBeWritten) {
  Job nowhere = job(tiny_gpt2, 1, ShardingStrategy::no_shard, "run");
  nowhere.output = folder().write("file", "not a folder") / "run";
  const auto outcomes = run_ranks(1, [&](const Environment& environment) {
    return train(nowhere, environment, {.quiet = true});
  });
  EXPECT_EQ(outcomes[0].exit_code, 3);
  EXPECT_THAT(outcomes[0].message, ::testing::HasSubstr(nowhere.output.string()));
}

TEST_F(TrainingTest, LeavesNoHalfModelOnAFullDisk) {
  Job full = job(tiny_gpt2, 1, ShardingStrategy::no_shard, "run");
  full.steps = 1;
  const auto outcomes = run_ranks(1, [&](const Environment& environment) {
    // Files of at most 64 KiB: the weights are larger, and fail half-way as on a full disk.
    const rlimit limit{.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
    return train(full, environment, {.quiet = true});
  });
  EXPECT_EQ(outcomes[0].exit_code, 3) << outcomes[0].message;
  EXPECT_THAT(outcomes[0].message, ::testing::HasSubstr("model.safetensors"));
  EXPECT_TRUE(std::filesystem::is_empty(full.output / "model"));
}

}  // namespace
}  // namespace shardscope
