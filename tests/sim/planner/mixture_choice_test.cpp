// torchtitan's mixtures of experts as choices: the grids that are enumerated, their words and file,
// bounds that no trial falls below, and a search that finds what is best of all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <set>
#include <string>
#include <tuple>

#include "core/model/huggingface.h"
#include "sim/cost/cost_model.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/rounds.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/torchtitan_floor.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "sim/planner/written_choice.h"
#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/bounds_hold.h"
#include "tests/sim/planner/equal_schedules.h"

namespace shardscope::planner {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

/// 4 layers of 16 experts.
constexpr std::string_view mixture_of_16 = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": false,
  "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
  "intermediate_size": 3072, "max_position_embeddings": 4096, "mlp_only_layers": [],
  "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 16,
  "num_experts": 16, "num_experts_per_tok": 4, "num_hidden_layers": 4, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "vocab_size": 32000})";

/// The first layer without experts, the second of two groups of four.
constexpr std::string_view small_deepseek = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": false,
  "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 1024,
  "intermediate_size": 4096, "kv_lora_rank": 256, "max_position_embeddings": 4096,
  "moe_intermediate_size": 512, "n_group": 2, "n_routed_experts": 8, "n_shared_experts": 1,
  "norm_topk_prob": true, "num_attention_heads": 8, "num_experts_per_tok": 2,
  "num_hidden_layers": 3, "num_key_value_heads": 8, "q_lora_rank": 384, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "topk_group": 1,
  "v_head_dim": 128, "vocab_size": 16000})";

/// Every other layer has a window.
constexpr std::string_view small_gpt_oss = R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": true,
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 1024,
  "max_position_embeddings": 4096, "num_attention_heads": 16, "num_experts_per_tok": 4,
  "num_hidden_layers": 4, "num_key_value_heads": 8, "num_local_experts": 16,
  "rms_norm_eps": 1e-05, "sliding_window": 128, "tie_word_embeddings": false,
  "vocab_size": 16000})";

/// GPT-OSS-20b's sizes, 2 layers of 8 experts.
constexpr std::string_view wide_gpt_oss = R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": true,
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880, "intermediate_size": 2880,
  "max_position_embeddings": 4096, "num_attention_heads": 64, "num_experts_per_tok": 4,
  "num_hidden_layers": 2, "num_key_value_heads": 8, "num_local_experts": 8,
  "rms_norm_eps": 1e-05, "sliding_window": 128, "tie_word_embeddings": false,
  "vocab_size": 16000})";

/// 2 sequences of 4096 tokens for each rank of H100s, whose memory does not matter.
Inputs plan_of_experts(std::string_view config = mixture_of_16, int world = 8) {
  Inputs inputs = tiny_plan();
  inputs.config = JsonValue::parse(std::string(config), "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.profile.memory = {};
  inputs.question.runtimes = {};
  inputs.question.torchtitan = true;
  inputs.question.precisions = {TrainingPrecision::bf16_mixed};
  inputs.question.world = world;
  inputs.question.training.length = 4096;
  inputs.question.tokens_per_batch = std::int64_t{2} * world * 4096;
  return inputs;
}

// Experts over a divisor of the shards, of which a replica has 8, 4 or 2.
TEST(EnumerateMixtures, SpreadsExpertsOverShards) {
  std::set<std::tuple<int, int, int>> grids;  // replicate, shard, expert
  const Enumeration all = choices_of(plan_of_experts(), 8);
  for (const Choice& choice : all.choices)
    grids.emplace(choice.mesh.replicate, choice.mesh.shard, choice.torchtitan->experts);
  const std::set<std::tuple<int, int, int>> expected{{1, 8, 1}, {1, 8, 2}, {1, 8, 4},
                                                     {1, 8, 8}, {2, 4, 1}, {2, 4, 2},
                                                     {2, 4, 4}, {4, 2, 1}, {4, 2, 2}};
  EXPECT_EQ(grids, expected);
  EXPECT_THAT(all.dropped, Contains(Field(&Dropped::strategy, HasSubstr("beside experts"))));
}

TEST(EnumerateMixtures, NamesWhatIsNotPredicted) {
  const auto complaint = [](const auto& change) {
    Inputs inputs = plan_of_experts();
    change(inputs.question);
    return complaint_of([&] { choices_of(inputs, 8); });
  };
  EXPECT_THAT(complaint([](Question& q) { q.precisions = {TrainingPrecision::fp32}; }),
              HasSubstr("--precision: mixtures of experts are predicted in bf16_mixed alone"));
  EXPECT_THAT(complaint([](Question& q) { q.training.compiled = CompileScope::blocks; }),
              HasSubstr("compiled mixtures of experts are not predicted"));
  EXPECT_THAT(
      complaint([](Question& q) { q.training.float8 = eager::parallel::Float8Recipe::rowwise; }),
      HasSubstr("mixtures of experts in float8 are not predicted"));
  EXPECT_THAT(complaint([](Question& q) { q.training.length = q.tokens_per_batch = 4100; }),
              HasSubstr("8 equal parts of a sequence, and 4100 tokens do not divide"));
}

// The experts' axis is in the words, in the JSON and in torchtitan's file.
TEST(MixtureChoice, SaysItsExperts) {
  const Choice choice{.runtime = Runtime::fsdp2,
                      .sharding = ShardingStrategy::full_shard,
                      .mesh = {.shard = 8},
                      .prefetch = Prefetch::pre,
                      .torchtitan = TorchtitanAxes{.experts = 4}};
  EXPECT_EQ(strategy_text(choice), "torchtitan shard 8 x expert 4");
  EXPECT_EQ(mesh_text(choice), "replicate=1,shard=8,context=1,tensor=1,expert=4");
  const TemporaryFolder folder;
  const auto path = folder.path() / "choice.json";
  std::ofstream(path) << choice_json(choice);
  EXPECT_EQ(read_choice(path), choice);
  EXPECT_THAT(written(choice, {.job = {.seq = 128}, .model = plan_of_experts().model}).text,
              HasSubstr("expert_parallel_degree = 4\n"));
}

// The third of three steps is written down as a copy of the second. Of four steps it is run.
TEST(MixtureChoice, TheStepThatRepeatsIsTheRecordedOne) {
  static constexpr std::array three{"1", "2", "3"};
  static constexpr std::array four{"1", "2", "3", "4"};
  for (const std::string_view config : {mixture_of_16, small_deepseek}) {
    const Inputs inputs = plan_of_experts(config);
    const Basis basis(inputs);
    for (const Choice& choice : drawn(choices_of(inputs, 8).choices, 8)) {
      SCOPED_TRACE(text_of(choice));
      const TorchtitanPipeline pipeline = torchtitan_pipeline(choice, basis.trials);
      expect_equal_up_to(2, schedule_of_rank(pipeline, 0, {.steps = three}),
                         schedule_of_rank(pipeline, 0, {.steps = four}));
    }
  }
}

TEST(MixtureBounds, AreNoHigherThanTrials) {
  expect_bounds_hold(plan_of_experts(), 16);
  expect_bounds_hold(plan_of_experts(small_deepseek), 12);
  expect_bounds_hold(plan_of_experts(small_gpt_oss), 12);
}

// A device that only moves bytes, 1 TB/s. 256 tokens of 2880 columns, 128 rows for each of 8
// experts, 2 bytes each of two factors and a result. Millions of bytes: gate and values
// 16 x (128 x 2880 + 2880 x 5760 + 128 x 5760) = 283.11552, down
// 16 x (128 x 2880 + 2880 x 2880 + 128 x 2880) = 144.50688; queries, keys and values, 5120
// columns, 33.5872; output of 4096 columns 27.164672. Two layers, thrice: 2930.245632. The head
// eight times 32 rows, thrice, 24 x 93.36832 = 2240.83968.
TEST(MixtureBounds, GptOssHasTwoProductsOfExperts) {
  Inputs inputs = plan_of_experts(wide_gpt_oss);
  inputs.question.training.length = 128;
  HardwareProfile profile;
  profile.peak = {1e18};
  profile.memory_bandwidth = {1e12};
  const CostModel costs(profile);
  const Target target;
  const TrialInputs trials{.model = inputs.model,
                           .config = inputs.config,
                           .training = inputs.question.training,
                           .profile = profile,
                           .costs = costs,
                           .native_target = target};
  const Choice choice{.runtime = Runtime::fsdp2,
                      .mesh = {.shard = 8},
                      .batch = 2,
                      .torchtitan = TorchtitanAxes{.experts = 1}};
  EXPECT_NEAR(torchtitan_floor(choice, trials).compute.seconds(), 5171.085312e-6, 1e-7);
}

// Few rows for each expert: a product takes as long as its weights, and GPT-OSS has two.
TEST(MixtureBounds, AreNoHigherThanTrialsOfShortSequences) {
  for (const std::int64_t length : {128, 256}) {
    Inputs inputs = plan_of_experts(wide_gpt_oss);
    inputs.question.training.length = length;
    inputs.question.tokens_per_batch = 2 * 8 * length;
    expect_bounds_hold(inputs, 8);
  }
}

// On four nodes exchanges take most of the time.
TEST(MixtureBounds, AreNoHigherThanTrialsAcrossNodes) {
  Inputs inputs = plan_of_experts(mixture_of_16, 32);
  expect_bounds_hold(inputs, 12);
  inputs.profile.compute_slowdown = 3;
  expect_bounds_hold(inputs, 12);
}

// The host waits in each layer.
TEST(MixtureBounds, AreNoHigherThanTrialsOfASlowHost) {
  Inputs inputs = plan_of_experts();
  inputs.profile.host = HostCosts{.operation = Duration{50'000}, .view = {}, .backward = 0.5};
  expect_bounds_hold(inputs, 12);
}

TEST(MixtureSearch, FindsWhatIsBestOfAll) {
  Inputs inputs = plan_of_experts(mixture_of_16, 16);
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  const Basis basis(inputs);
  const std::vector<Choice> choices = choices_of(inputs, inputs.question.world).choices;
  const auto winners = [&](bool screen) {
    std::vector<std::string> texts;
    for (const Ranked& ranked :
         search(choices, basis.trials, {.places = 5, .kind = kind_of, .screen = screen}).ranked)
      texts.push_back(text_of(choices[ranked.choice]));
    return texts;
  };
  EXPECT_EQ(winners(true), winners(false));
}

}  // namespace
}  // namespace shardscope::planner
