// Training with logits in chunks and with fused operators: what changes in the numbers is nothing,
// or the order of a sum.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_device.h"
#include "backend/job/make_communicator.h"
#include "backend/train/line_file.h"
#include "backend/train/trainer.h"
#include "core/format/atomic_file.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/cuda/emulated_device.h"
#include "tests/backend/train/targeted_device.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

/// A vocabulary whose rows do not start on 16 bytes by themselves.
std::string with_odd_vocabulary(std::string_view config) {
  std::string text(config);
  const std::string even = "\"vocab_size\": 256";
  return text.replace(text.find(even), even.size(), "\"vocab_size\": 251");
}

struct Choice {
  Fusions fusions;
  Bytes logits = most_logits;
};

using MakeDevice = std::unique_ptr<Device> (*)();
std::unique_ptr<Device> plain_cpu() { return make_cpu_device({.threads = 1, .use_onednn = false}); }
std::unique_ptr<Device> usual_cpu() { return make_cpu_device({.threads = 1}); }

class TargetTest : public TrainingFixture {
 protected:
  /// Losses and gradient norms of a few steps in the checking mode, in which live bytes must be the
  /// schedule's.
  std::vector<double> run(Job job, MakeDevice make_device, const Choice& choice) {
    const auto outcomes = testing::run_ranks(job.ranks, [&](const Environment& environment) {
      const std::unique_ptr<Device> device = make_device();
      test::TargetedDevice targeted(*device, choice.fusions, choice.logits);
      const std::unique_ptr<Communicator> world =
          make_communicator(job.communicator, environment, std::chrono::seconds(30), device.get());
      create_folder(job.output);
      Trainer trainer(job, *world, targeted);
      LineFile metrics(job.output / ("metrics.jsonl" + suffix(environment.rank)));
      for (int step = 0; step < job.steps; ++step)
        metrics.append(to_json(trainer.run_step().metrics));
      trainer.executor().between_steps([&] { world->barrier(); });
    });
    for (const auto& outcome : outcomes)
      EXPECT_EQ(outcome, testing::RankOutcome{}) << outcome.message;
    return metrics(job);
  }

 private:
  static std::string suffix(int rank) { return rank == 0 ? "" : std::to_string(rank); }
};

struct Chunked {
  std::string_view config;
  Precision precision;
};
void PrintTo(const Chunked& c, std::ostream* out) {
  *out << (c.config == tiny_gpt2 ? "gpt2" : "llama") << " in " << name_of(c.precision);
}

class ChunkedLogitsTest : public TargetTest, public ::testing::WithParamInterface<Chunked> {};

TEST_P(ChunkedLogitsTest, AreBitEqualForAllStrategiesAndNearTheWhole) {
  const auto [config, precision] = GetParam();
  const auto run_as = [&, precision = precision](ShardingStrategy sharding, Bytes logits) {
    Job one = job(with_odd_vocabulary(GetParam().config), 2, sharding,
                  std::string(name_of(sharding)) + std::to_string(logits.count));
    one.strategy.precision = precision;
    one.accumulate = 2;
    one.steps = 5;
    return run(one, usual_cpu, {.logits = logits});
  };
  // 32 rows of 256 elements: of 4 bytes 10 rows, of 2 bytes 20 at once.
  const auto reference = run_as(ShardingStrategy::no_shard, 10_KiB);
  ASSERT_EQ(reference.size(), 10U);
  for (const ShardingStrategy sharding :
       {ShardingStrategy::zero1, ShardingStrategy::shard_grad_op, ShardingStrategy::full_shard})
    EXPECT_EQ(run_as(sharding, 10_KiB), reference) << name_of(sharding);
  const auto whole = run_as(ShardingStrategy::no_shard, most_logits);
  const double rounding = precision == Precision::fp32 ? 1e-5 : 0.01;
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(reference[i], whole[i], rounding * whole[i]) << i / 2;
}

INSTANTIATE_TEST_SUITE_P(TinyModels, ChunkedLogitsTest,
                         ::testing::Values(Chunked{tiny_gpt2, Precision::fp32},
                                           Chunked{tiny_llama, Precision::fp32},
                                           Chunked{tiny_llama, Precision::bf16_mixed},
                                           Chunked{tiny_gpt2, Precision::bf16}));

TEST_F(TargetTest, JoinedGelusChangeNoBitInFloat32) {
  for (const Checkpointing checkpointing : {Checkpointing{}, full_checkpointing}) {
    Job one = job(tiny_gpt2, 2, ShardingStrategy::full_shard, "gelu");
    one.strategy.checkpointing = checkpointing;
    one.accumulate = 2;
    one.steps = 3;
    const auto apart = run(one, plain_cpu, {});
    ASSERT_EQ(apart.size(), 6U);
    EXPECT_EQ(run(one, plain_cpu, {.fusions = {.linear_gelu = true}}), apart);
  }
}

TEST_F(TargetTest, JoinedGelusAreNearInMixedPrecision) {
  Job one = job(tiny_gpt2, 1, ShardingStrategy::no_shard, "gelu");
  one.strategy.precision = Precision::bf16_mixed;
  one.steps = 5;
  const auto apart = run(one, plain_cpu, {});
  const auto joined = run(one, plain_cpu, {.fusions = {.linear_gelu = true}});
  ASSERT_EQ(joined.size(), 10U);
  for (std::size_t i = 0; i < apart.size(); ++i)
    EXPECT_NEAR(joined[i], apart[i], 0.01 * apart[i]) << i / 2;
}

TEST_F(TargetTest, ChunkedLogitsTrainOnTheCudaKernels) {
  Job one = job(with_odd_vocabulary(tiny_gpt2), 1, ShardingStrategy::no_shard, "chunked");
  one.batch = 1;
  one.steps = 2;
  one.check = false;  // looks into the memory, which is not the host's
  const auto emulated = run(one, test::make_emulated_cuda_device, {.logits = 5_KiB});
  const auto expected = run(one, plain_cpu, {});
  ASSERT_EQ(emulated.size(), 4U);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(emulated[i], expected[i], 1e-5 * expected[i]) << i / 2;
}

}  // namespace
}  // namespace shardscope
