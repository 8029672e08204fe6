// Trials of a model with fewer blocks against those of the whole model.
#include "sim/planner/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/model/huggingface.h"
#include "core/pytorch/runtimes/training/fine_tuning.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/planner/answer/basis.h"
#include "sim/planner/bounds.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/sharding_bounds.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/bounds_hold.h"

namespace shardscope::planner {
namespace {

constexpr std::string_view deep_llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 256, "intermediate_size": 768, "max_position_embeddings": 512,
  "num_attention_heads": 4, "num_hidden_layers": 16, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 4096})";

class Estimate : public ::testing::Test {
 protected:
  static Inputs deep_plan() {
    Inputs inputs = tiny_plan();
    inputs.config = JsonValue::parse(deep_llama, "config.json");
    inputs.model = model_of_config(inputs.config);
    inputs.question.runtimes = {Runtime::fsdp1, Runtime::fsdp2, Runtime::ddp, Runtime::deepspeed};
    inputs.question.tokens_per_batch = 4 * 4 * 64;
    return inputs;
  }
  std::vector<Choice> choices() const {
    std::vector<Choice> all = choices_of(inputs_, 4).choices;
    std::erase_if(all, [](const Choice& choice) { return choice.offload != Offload::none; });
    return all;
  }

  Inputs inputs_ = deep_plan();
  Basis basis_{inputs_};
};

/// The same model with adapters, whose base is frozen in bfloat16.
class EstimateWithAdapters : public Estimate {
 protected:
  static Inputs adapted_plan() {
    Inputs inputs = deep_plan();
    auto base = std::make_shared<Model>(inputs.model);
    for (Parameter& parameter : base->parameters) parameter.dtype = Dtype::bfloat16;
    const eager::FineTuningSetup tuning{.base = base,
                                        .adapter = LoraConfig{.rank = 16, .all_linear = true}};
    inputs.model = eager::fine_tuned_model({inputs.config, eager::usual_settings(*base), tuning});
    inputs.question.training.fine_tuning = tuning;
    inputs.question.runtimes = {Runtime::fsdp2, Runtime::ddp, Runtime::deepspeed};
    inputs.question.precisions = {TrainingPrecision::bf16_mixed};
    return inputs;
  }
  Inputs adapted_ = adapted_plan();
  Basis adapted_basis_{adapted_};
};

TEST_F(EstimateWithAdapters, IsNoHigherThanItsSlackAllows) {
  std::vector<Choice> all = choices_of(adapted_, 4).choices;
  std::erase_if(all, [](const Choice& choice) { return choice.offload != Offload::none; });
  const TrialInputs& trials = adapted_basis_.trials;
  int estimates = 0;
  for (std::size_t i = 0; i < all.size(); i += 19) {
    const auto estimate = estimated(all[i], trials);
    if (!estimate) continue;
    const double most = 1 + estimate_slack(all[i], trials.training);
    const Trial whole = try_out(all[i], trials);
    EXPECT_LE(estimate->time.span.seconds(), whole.time.span.seconds() * most) << text_of(all[i]);
    EXPECT_GE(estimate->time.span.seconds(), whole.time.span.seconds() / 2) << text_of(all[i]);
    ++estimates;
    const auto settled = estimated(all[i], trials, {}, settled_periods);
    if (!settled) continue;
    EXPECT_LE(static_cast<double>(settled->needed().count),
              static_cast<double>(whole.needed().count) * most)
        << text_of(all[i]);
  }
  EXPECT_GT(estimates, 5);
}

void expect_no_higher_than_trials(const Inputs& inputs, std::size_t count) {
  const Basis basis(inputs);
  std::vector<Choice> all = choices_of(inputs, 4).choices;
  // Selective checkpoints beside adapters may be refused.
  std::erase_if(all, [](const Choice& choice) { return choice.checkpointing.selective; });
  const std::vector<Choice> some = drawn(std::move(all), count);
  const std::vector<Bounds> bounds = bounds_of(some, basis.trials, 0);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const Trial whole = try_out(some[i], basis.trials);
    EXPECT_GT(bounds[i].time, Duration{}) << text_of(some[i]);
    EXPECT_LE(bounds[i].time, whole.time.span) << text_of(some[i]);
    EXPECT_LE(bounds[i].memory, whole.needed()) << text_of(some[i]);
  }
}

TEST_F(EstimateWithAdapters, BoundsFromFewerBlocksAreNoHigherThanTrials) {
  expect_no_higher_than_trials(adapted_, 60);
}

// FSDP1 has PEFT's units. Links so slow that they decide.
TEST_F(EstimateWithAdapters, BoundsOfFsdpOverSlowLinksAreNoHigherThanTrials) {
  adapted_.question.runtimes = {Runtime::fsdp1, Runtime::fsdp2};
  adapted_.profile.link = adapted_.profile.network = Link{.bandwidth = {1e9}, .latency = {}};
  expect_no_higher_than_trials(adapted_, 60);
}

// Nothing below the last two of 16 blocks needs a gradient, so their units are gathered once.
TEST_F(EstimateWithAdapters, BoundsOfFewAdaptersAreNoHigherThanTrials) {
  eager::FineTuningSetup& tuning = *adapted_.question.training.fine_tuning;
  tuning.adapter->layers_to_transform = {14, 15};
  adapted_.model =
      eager::fine_tuned_model({adapted_.config, eager::usual_settings(*tuning.base), tuning});
  adapted_.question.runtimes = {Runtime::fsdp1, Runtime::fsdp2, Runtime::deepspeed};
  adapted_.profile.link = adapted_.profile.network = Link{.bandwidth = {1e9}, .latency = {}};
  expect_no_higher_than_trials(adapted_, 60);
}

// By hand: 14,688,512 parameters of the base. Adapters of rank 16 in seven layers of a block have
// 16 x (512 + 384 + 384 + 512 + 3 x 1024) = 77,824 elements, in 16 blocks 1,245,184. In bfloat16
// all take 31,867,392 bytes. A half of them is 7,966,848 bytes more than a quarter.
TEST_F(EstimateWithAdapters, BoundOfMemoryHasTheFrozenBase) {
  Choice choice = tiny_choice();
  choice.mesh = {.shard = 4};
  std::vector<Choice> two{choice, choice};
  two[1].mesh = {.shard = 2};
  const std::vector<Bounds> bounds = bounds_of(two, adapted_basis_.trials, 1);
  EXPECT_EQ(bounds[1].memory - bounds[0].memory, Bytes{7'966'848});
}

// The same: one unit is gathered before anything is computed, in each micro-batch.
TEST_F(EstimateWithAdapters, BoundOfOneUnitGathersTheFrozenBase) {
  Choice choice = tiny_choice();
  choice.mesh = {.shard = 4};
  choice.blocks_per_unit = 0;
  const PerStep each = sharding_bounds(choice, adapted_basis_.trials).each;
  const Duration gather = adapted_basis_.costs.collective_time(
      OperationKind::all_gather, Bytes{31'867'392}, Group{.ranks = Ranks::spaced(0, 1, 4)});
  EXPECT_EQ(each.communication.gathers, gather);
  EXPECT_EQ(each.exposed, gather);
}

TEST(Depths, AreTwoThatRepeat) {
  EXPECT_EQ(depths_of(32, 1)->few, 2);
  EXPECT_EQ(depths_of(32, 1)->more, 3);
  EXPECT_EQ(depths_of(32, 4)->few, 4);
  EXPECT_EQ(depths_of(32, 4)->more, 8);
  // Of 30 blocks in fours two are over: 6 and 10 have two over, too.
  EXPECT_EQ(depths_of(30, 4)->few, 6);
  EXPECT_EQ(depths_of(30, 4)->more, 10);
  EXPECT_FALSE(depths_of(32, 8));  // 8 and 16 blocks are too many
  EXPECT_FALSE(depths_of(4, 1));
}

// 10 at 2 blocks and 13 at 3: 3 for each, 100 at 32.
TEST(Depths, ExtendALine) { EXPECT_EQ((Depths{2, 3}.extended(10, 13, 32)), 100); }

// Links so slow that few blocks hide what many do not: estimates are low, and not high.
TEST_F(Estimate, OfNoChoiceIsHigherThanItsSlackAllows) {
  int estimates = 0;
  const std::vector<Choice> all = choices();
  for (std::size_t i = 0; i < all.size(); i += 7) {
    const auto trial = estimated(all[i], basis_.trials);
    if (!trial) continue;
    const Trial whole = try_out(all[i], basis_.trials);
    EXPECT_LE(trial->time.span.seconds(),
              whole.time.span.seconds() * (1 + estimate_slack(all[i], basis_.trials.training)))
        << text_of(all[i]);
    ++estimates;
    const auto settled = estimated(all[i], basis_.trials, {}, settled_periods);
    if (!settled) continue;
    EXPECT_LE(static_cast<double>(settled->needed().count),
              static_cast<double>(whole.needed().count) *
                  (1 + estimate_slack(all[i], basis_.trials.training)))
        << text_of(all[i]);
  }
  EXPECT_GT(estimates, 20);
}

TEST_F(Estimate, LeadsToTheSamePlaces) {
  const TrialInputs& without = basis_.trials;
  std::vector<Choice> some;
  const std::vector<Choice> all = choices();
  for (std::size_t i = 0; i < all.size(); i += 5) some.push_back(all[i]);
  const TrialInputs alone{.model = without.model,
                          .config = without.config,
                          .training = without.training,
                          .profile = without.profile,
                          .costs = without.costs,
                          .native_target = without.native_target,
                          .allocator = without.allocator};
  const SearchResult by_estimates = search(some, basis_.trials, {.places = 5});
  const SearchResult whole = search(some, alone, {.places = 5});
  ASSERT_EQ(by_estimates.ranked.size(), whole.ranked.size());
  for (std::size_t i = 0; i < whole.ranked.size(); ++i)
    EXPECT_EQ(by_estimates.ranked[i].choice, whole.ranked[i].choice);
}

TEST_F(Estimate, BoundsFromFewerBlocksAreNoHigherThanTrials) {
  const std::vector<Choice> all = choices();
  const std::vector<Bounds> bounds = bounds_of(all, basis_.trials, 0);
  for (std::size_t i = 0; i < all.size(); i += 11) {
    const Trial whole = try_out(all[i], basis_.trials);
    EXPECT_GT(bounds[i].time, Duration{}) << text_of(all[i]);
    EXPECT_LE(bounds[i].time, whole.time.span) << text_of(all[i]);
    EXPECT_LE(bounds[i].memory, whole.needed()) << text_of(all[i]);
  }
}

// By hand: 147 gradients fit one bucket. Each is narrowed for each rank, and 33 of 256 elements are
// filled up for all but 256 ranks: 147 x 2,048 + 33 x 1,792 = 360,192 views and empty tensors. One
// of the other 114, which have equal parts, may be alone: 2,048 less. Twice the ranks have 728,832
// - 4,096. Of 50 parameters that are gathered 48 surely are with others, and narrowed for each
// rank: 98,304 views, and twice that. Each takes the host 0.5 us (a quarter of 2 us): (366,592 +
// 98,304) x 0.5 us = 232,448 us more in each of two micro-batches.
TEST_F(Estimate, BoundHasTheHostsTimeForPartsOfGradients) {
  Choice choice{.runtime = Runtime::deepspeed,
                .sharding = ShardingStrategy::full_shard,
                .mesh = {.shard = 2048},
                .prefetch = Prefetch::pre,
                .batch = 1,
                .micro_batches = 2};
  std::vector<Choice> two{choice, choice};
  two[1].mesh.shard = 4096;
  const std::vector<Bounds> bounds = bounds_of(two, basis_.trials, 1);
  EXPECT_EQ(bounds[1].time - bounds[0].time, Duration{464'896'000});
  for (std::size_t i = 0; i < two.size(); ++i)
    EXPECT_LE(bounds[i].time, try_out(two[i], basis_.trials).time.span);
}

// By hand: the part of each rank is narrowed and viewed before a reduction and after it: 4 x 0.5 us
// for each rank and reduction, of which stage 2 has one in each of three micro-batches and stage 1
// one a step. 8,192 ranks more are 49,152 us and 16,384 us. A rank that owns padding alone has
// none. Links take no time, so that the host decides.
TEST_F(Estimate, BoundHasTheHostsTimeForPartsOfOwners) {
  Inputs inputs = deep_plan();
  inputs.profile.link = inputs.profile.network = Link{.bandwidth = {1e18}, .latency = {}};
  const Basis basis(inputs);
  const auto more = [&](ShardingStrategy stage) {
    Choice choice{.runtime = Runtime::deepspeed,
                  .sharding = stage,
                  .mesh = {.shard = 8192},
                  .prefetch = Prefetch::none,
                  .batch = 1,
                  .micro_batches = 3,
                  .precision = TrainingPrecision::fp32};
    std::vector<Choice> two{choice, choice};
    two[1].mesh.shard = 16384;
    const std::vector<Bounds> bounds = bounds_of(two, basis.trials, 1);
    for (std::size_t i = 0; i < two.size(); ++i)
      EXPECT_LE(bounds[i].time, try_out(two[i], basis.trials).time.span);
    return static_cast<double>((bounds[1].time - bounds[0].time).ns);
  };
  EXPECT_NEAR(more(ShardingStrategy::shard_grad_op), 49'152'000, 492'000);
  EXPECT_NEAR(more(ShardingStrategy::zero1), 16'384'000, 164'000);
}

TEST_F(Estimate, IsNoneWhereBlocksDoNotRepeat) {
  Choice choice = tiny_choice();
  EXPECT_TRUE(estimated(choice, basis_.trials));
  choice.runtime = Runtime::fsdp1;
  choice.blocks_per_unit = 0;
  EXPECT_FALSE(estimated(choice, basis_.trials));
  // Blocks so small do not fill a bucket of DeepSpeed's.
  choice = tiny_choice();
  choice.runtime = Runtime::deepspeed;
  EXPECT_FALSE(estimated(choice, basis_.trials));
}

// By hand, of 2 ranks at 20 GB/s, each of two micro-batches: 14,688,512 gradients of bfloat16 are
// 29,377,024 bytes. To read and write them in the bucket, and again to divide them, takes 587.54 us
// each at 100 GB/s; to reduce half of them takes 734.43 us and a latency of 2 us.
TEST_F(Estimate, BoundHasTheTimeOfReductionsThatDoNotOverlap) {
  Choice choice{.runtime = Runtime::deepspeed,
                .sharding = ShardingStrategy::full_shard,
                .mesh = {.shard = 2},
                .prefetch = Prefetch::pre,
                .batch = 64,
                .micro_batches = 2};
  std::vector<Choice> two{choice, choice};
  two[1].prefetch = Prefetch::none;
  const std::vector<Bounds> bounds = bounds_of(two, basis_.trials, 1);
  EXPECT_NEAR(static_cast<double>((bounds[1].time - bounds[0].time).ns), 3'823'013, 10);
}

/// Blocks as wide as those of Llama-3-8B, so that a bucket of DeepSpeed's holds about two of them.
class WideEstimate : public ::testing::Test {
 protected:
  static Inputs wide_plan() {
    Inputs inputs = tiny_plan();
    inputs.config = JsonValue::parse(R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
      "num_attention_heads": 32, "num_hidden_layers": 24, "num_key_value_heads": 8,
      "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
      "use_cache": false, "vocab_size": 128256})",
                                     "config.json");
    inputs.model = model_of_config(inputs.config);
    inputs.profile = find_hardware_profile("h100_sxm", "test");
    inputs.question.runtimes = {Runtime::deepspeed};
    inputs.question.world = 32;
    inputs.question.tokens_per_batch = 32 * 4 * 2048;
    inputs.question.training.length = 2048;
    return inputs;
  }
  std::vector<Choice> choices() const {
    std::vector<Choice> all = choices_of(inputs_, inputs_.question.world).choices;
    // ZeRO-3 refuses selective checkpointing.
    std::erase_if(all, [](const Choice& choice) {
      return choice.offload != Offload::none || choice.checkpointing.selective;
    });
    return all;
  }

  Inputs inputs_ = wide_plan();
  Basis basis_{inputs_};
};

TEST_F(WideEstimate, OfDeepSpeedIsNoHigherThanItsSlackAllows) {
  const std::vector<Choice> all = choices();
  int estimates = 0;
  for (std::size_t i = 0; i < all.size(); i += all.size() / 24) {
    const auto trial = estimated(all[i], basis_.trials);
    if (!trial) continue;
    ++estimates;
    const Trial whole = try_out(all[i], basis_.trials);
    const double most = 1 + estimate_slack(all[i], basis_.trials.training);
    EXPECT_LE(trial->time.span.seconds(), whole.time.span.seconds() * most) << text_of(all[i]);
    EXPECT_LE(static_cast<double>(trial->needed().count),
              static_cast<double>(whole.needed().count) * most)
        << text_of(all[i]);
  }
  EXPECT_GT(estimates, 10);
}

TEST_F(WideEstimate, BoundsOfDeepSpeedAreNoHigherThanTrials) {
  const std::vector<Choice> all = choices();
  const std::vector<Bounds> bounds = bounds_of(all, basis_.trials, 0);
  for (std::size_t i = 0; i < all.size(); i += all.size() / 24) {
    const Trial whole = try_out(all[i], basis_.trials);
    EXPECT_GT(bounds[i].time, Duration{}) << text_of(all[i]);
    EXPECT_LE(bounds[i].time, whole.time.span) << text_of(all[i]);
    EXPECT_LE(bounds[i].memory, whole.needed()) << text_of(all[i]);
  }
}

// Without overlap_comm the reduction of each micro-batch is on the stream that computes, and adds
// to the step's time.
TEST_F(WideEstimate, BoundOfReductionsThatDoNotOverlapIsHigher) {
  Choice choice{.runtime = Runtime::deepspeed,
                .sharding = ShardingStrategy::full_shard,
                .mesh = {.shard = 32},
                .prefetch = Prefetch::pre,
                .batch = 2,
                .micro_batches = 2};
  std::vector<Choice> two{choice, choice};
  two[1].prefetch = Prefetch::none;
  const std::vector<Bounds> bounds = bounds_of(two, basis_.trials, 1);
  EXPECT_GT(bounds[1].time, bounds[0].time);
}

TEST_F(WideEstimate, BoundsOfFsdpAreNoHigherThanTrials) {
  Inputs inputs = wide_plan();
  inputs.question.runtimes = {Runtime::fsdp1, Runtime::fsdp2};
  const Basis basis(inputs);
  std::vector<Choice> all = choices_of(inputs, 32).choices;
  std::erase_if(all, [](const Choice& choice) { return choice.offload != Offload::none; });
  all = drawn(std::move(all), 32);
  const std::vector<Bounds> bounds = bounds_of(all, basis.trials, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Trial whole = try_out(all[i], basis.trials);
    EXPECT_GT(bounds[i].time, Duration{}) << text_of(all[i]);
    EXPECT_LE(bounds[i].time, whole.time.span) << text_of(all[i]);
    EXPECT_LE(bounds[i].memory, whole.needed()) << text_of(all[i]);
  }
}

// One unit is gathered before anything of a micro-batch is computed, and reduced behind all of it:
// a further micro-batch adds both, whole, to what it computes.
TEST_F(WideEstimate, BoundOfOneUnitHasAllCommunicationOfEachMicroBatch) {
  Choice three{.runtime = Runtime::fsdp1,
               .sharding = ShardingStrategy::full_shard,
               .mesh = {.shard = 32},
               .blocks_per_unit = 0,
               .prefetch = Prefetch::pre,
               .batch = 1,
               .micro_batches = 3,
               .reduces_every_micro_batch = true};
  Choice two = three;
  two.micro_batches = 2;
  const std::vector<Choice> both{two, three};
  const std::vector<Bounds> bounds = bounds_of(both, basis_.trials, 1);
  const Duration computed = plain_step(three, basis_.trials).compute;
  const Group world{.ranks = Ranks::spaced(0, 1, 32)};
  const Bytes all = bytes_of(inputs_.model.parameter_elements(), Dtype::bfloat16);
  const Duration exchanged =
      basis_.costs.collective_time(OperationKind::all_gather, all, world) +
      basis_.costs.collective_time(OperationKind::reduce_scatter, all, world);
  const double more = (bounds[1].time - bounds[0].time).seconds();
  EXPECT_NEAR(more, (computed + exchanged).seconds(), 1e-4 * more);
}

// A second copy among 2 ranks is half of the 16-bit parameters, but for what stays whole.
TEST_F(WideEstimate, BoundOfMemoryHasTheSecondCopy) {
  Choice whole{.runtime = Runtime::deepspeed,
               .sharding = ShardingStrategy::full_shard,
               .mesh = {.shard = 32},
               .prefetch = Prefetch::pre,
               .batch = 1,
               .micro_batches = 4};
  Choice hybrid = whole;
  hybrid.sharding = ShardingStrategy::hybrid_shard;
  hybrid.mesh = {.replicate = 16, .shard = 2};
  const std::vector<Choice> two{whole, hybrid};
  const std::vector<Bounds> bounds = bounds_of(two, basis_.trials, 1);
  std::int64_t elements = 0;
  for (const Parameter& parameter : inputs_.model.parameters)
    if (parameter.shape.size() > 1) elements += parameter.elements();
  EXPECT_EQ(bounds[1].memory - bounds[0].memory, Bytes{elements / 2 * 2});
}

TEST_F(WideEstimate, ARecordingIsGivenOnce) {
  const Choice choice = choices().front();
  EXPECT_FALSE(basis_.findings.take_recording(choice));
  basis_.findings.keep_recording(choice, Schedule{.world = 7});
  EXPECT_EQ(basis_.findings.take_recording(choice)->world, 7);
  EXPECT_FALSE(basis_.findings.take_recording(choice));
}

// Two of 600,000 rows are less than the limit of 1.6 million, three are more.
TEST_F(WideEstimate, TheOldestRecordingsAreLetGo) {
  const std::vector<Choice> all = choices();
  for (int i = 0; i < 3; ++i) {
    Schedule schedule{.world = i + 1};
    schedule.program.actions.resize(600'000);
    basis_.findings.keep_recording(all[static_cast<std::size_t>(i)], std::move(schedule));
  }
  EXPECT_FALSE(basis_.findings.take_recording(all[0]));
  EXPECT_EQ(basis_.findings.take_recording(all[1])->world, 2);
  EXPECT_EQ(basis_.findings.take_recording(all[2])->world, 3);
}

TEST(ShallowModels, HaveTheFirstBlocks) {
  const Inputs inputs = tiny_plan();
  const ShallowModels models(inputs.model, inputs.config);
  ASSERT_EQ(models.blocks(), 3);
  const Model& two = models.with(2).model;
  const Model expected = model_of_config(models.with(2).config);
  ASSERT_EQ(two.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < two.parameters.size(); ++i) {
    EXPECT_EQ(two.parameters[i].name, expected.parameters[i].name);
    EXPECT_EQ(two.parameters[i].shape, expected.parameters[i].shape);
  }
  EXPECT_EQ(two.modules, expected.modules);
  EXPECT_EQ(two.buffers, expected.buffers);
}

TEST(ShallowModels, AreNoneWhereLayersDiffer) {
  Inputs inputs = tiny_plan();
  std::string text = inputs.config.dump();
  text.insert(text.size() - 1,
              R"(,"layer_types":["full_attention","sliding_attention","full_attention"])");
  EXPECT_EQ(ShallowModels(inputs.model, JsonValue::parse(text, "config.json")).blocks(), 0);
}

}  // namespace
}  // namespace shardscope::planner
