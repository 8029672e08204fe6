#include "sim/planner/lengths_memory.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "core/pytorch/runtimes/training/training_run.h"
#include "sim/planner/memory_play.h"

namespace shardscope::planner {
namespace {

/// A Llama whose heads of keys and values are shared, so that a mask costs memory of its own.
/// Its logits and layers are beyond the 10 MiB up to which requests share segments.
class LengthsMemoryOfALlama : public ::testing::Test {
 protected:
  LengthsMemoryOfALlama()
      : config_(JsonValue::parse(
            R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
 "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2,
 "num_attention_heads": 8, "num_key_value_heads": 2, "tie_word_embeddings": false})",
            "config")),
        model_(model_of_config(config_)) {
    training_.runtime = Runtime::ddp;
    training_.setup = eager::requested_setup(model_, {.runtime = Runtime::ddp,
                                                      .sharding = ShardingStrategy::no_shard,
                                                      .precision = TrainingPrecision::bf16});
    training_.setup.model = eager::usual_settings(model_);
    training_.setup.loop.batch = 4;
    training_.setup.loop.length = 600;
  }

  LengthsMemory of(const SequenceLengths& lengths, const DeviceRoom& room = {}) const {
    return memory_of_lengths(training_, model_, config_, room, lengths).value();
  }
  /// Of micro-batches that all have 600 tokens, played by itself.
  Bytes allocated_without_mask() const {
    const eager::TrainingSetup& setup = training_.setup;
    MemoryPlay play({.session = setup.session,
                     .device = eager::kernel_device(setup.session.compute_capability),
                     .allocator = {},
                     .memory = {}});
    eager::TrainingRun run(play.session(), model_, config_, setup);
    for (int step = 0; step < 3; ++step)
      run.loop().iteration([&](eager::Moment, int) { play.catch_up(); });
    return {play.allocator().statistics().allocated_bytes.peak};
  }

  JsonValue config_;
  Model model_;
  PytorchTraining training_;
};

/// 100 to 600 tokens, and 600 alone; 51 micro-batches of 4 either way.
SequenceLengths growing() {
  SequenceLengths lengths;
  for (std::int64_t i = 0; i < 204; ++i) lengths.ascending.push_back(100 + i * 500 / 203);
  return lengths;
}
SequenceLengths all_of_600() { return {std::vector<std::int64_t>(204, 600)}; }

// Blocks of the shorter micro-batches are too small for the longer ones, and are kept.
TEST_F(LengthsMemoryOfALlama, AGrowingRunReservesMoreThanTheLongestAlone) {
  const LengthsMemory grown = of(growing()), alone = of(all_of_600());
  EXPECT_EQ(alone.longest, 600);
  EXPECT_LE(grown.longest, 600);
  EXPECT_EQ(grown.micro_batches, 51);
  EXPECT_LE(grown.peak_allocated, alone.peak_allocated);
  EXPECT_GT(grown.peak_reserved, alone.peak_reserved);
}

// One pass is shared out: 204 sequences in micro-batches of 4 on 8 ranks are 6 of each.
TEST_F(LengthsMemoryOfALlama, EachRankTakesItsShareOfThePass) {
  training_.setup.world = 8;
  EXPECT_EQ(of(all_of_600()).micro_batches, 6);
  training_.setup.world = 1000;
  EXPECT_EQ(of(all_of_600()).micro_batches, 1);
}

TEST_F(LengthsMemoryOfALlama, FlashAttentionTakesNoMask) {
  EXPECT_GT(of(all_of_600()).peak_allocated, allocated_without_mask());
  training_.setup.session.attention = {.flash = false, .cudnn = false};  // --attention efficient
  EXPECT_GT(of(all_of_600()).peak_allocated, allocated_without_mask());
  training_.setup.session.attention = {.cudnn = false};  // --attention flash
  EXPECT_EQ(of(all_of_600()).peak_allocated, allocated_without_mask());
}

// On a device without end the run reserves what it needs: with what lies outside and the margin it
// fits a device of just that, and none of a byte less.
TEST_F(LengthsMemoryOfALlama, FitsUpToTheLastByte) {
  const Bytes reserved = of(growing()).peak_reserved;
  const DeviceRoom edge{.memory = reserved + 2_GiB + 1_GiB, .outside = 2_GiB, .margin = 1_GiB};
  EXPECT_TRUE(of(growing(), edge).fits);
  DeviceRoom less = edge;
  less.memory = edge.memory - Bytes{1};
  const LengthsMemory tight = of(growing(), less);
  EXPECT_FALSE(tight.fits);
  EXPECT_FALSE(tight.out_of_memory);
}

// The run alone fits, and fails as soon as CUDA's context takes more than the cache that it gives
// back.
TEST_F(LengthsMemoryOfALlama, WhatLiesOutsideIsTakenFromTheDevice) {
  const LengthsMemory alone = of(all_of_600());
  EXPECT_TRUE(of(all_of_600(), {.memory = alone.peak_reserved}).fits);
  const Bytes cached = alone.peak_reserved - alone.peak_allocated;
  const LengthsMemory beside =
      of(all_of_600(), {.memory = alone.peak_reserved, .outside = cached + Bytes{1}});
  EXPECT_TRUE(beside.out_of_memory);
  EXPECT_FALSE(beside.fits);
}

TEST_F(LengthsMemoryOfALlama, RefusesAPromptThatIsNoShorterThanAMicroBatch) {
  training_.setup.loop.prompt = 599;
  EXPECT_NO_THROW(check_prompt(training_.setup, model_, all_of_600()));
  training_.setup.loop.prompt = 600;
  EXPECT_THROW(check_prompt(training_.setup, model_, all_of_600()), Error);
  EXPECT_THROW(of(all_of_600()), Error);
}

TEST_F(LengthsMemoryOfALlama, LengthsInOneRowAreNotPlayed) {
  training_.setup.loop.flattens = true;
  EXPECT_FALSE(memory_of_lengths(training_, model_, config_, {}, growing()));
}

}  // namespace
}  // namespace shardscope::planner
