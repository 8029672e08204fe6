// Megatron-LM's command line in `simulate`, `plan` and `lint`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Megatron : public ::testing::Test {
 protected:
  Megatron() {
    workplace_.write("run.sh",
                     "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                     "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 "
                     "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
                     "--micro-batch-size 1 --global-batch-size 32 --bf16 --hidden-dropout 0 "
                     "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
                     "--sequence-parallel --use-distributed-optimizer --overlap-grad-reduce "
                     "--overlap-param-gather\n");
    workplace_.write("config.json",
                     R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8,
"num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": false,
"max_position_embeddings": 4096, "rope_theta": 500000.0})");
  }

  Json answer(const std::string& arguments, int code = 0) const {
    const Outcome outcome = workplace_.run(arguments + " --json");
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    return Json::parse(outcome.output);
  }
  std::string refusal(const std::string& arguments) const {
    const Outcome outcome = workplace_.run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    return outcome.errors;
  }

  static constexpr const char* simulate = "simulate --config run.sh --cluster h100_sxm ";
  static constexpr const char* plan =
      "plan --runtime megatron --model config.json --cluster h100_sxm --world 8 "
      "--tokens-per-batch 65536 --seq 4096 ";
  Workplace workplace_;
};

// The distributed optimizer is the file's, unless an option says otherwise.
TEST_F(Megatron, OptionsDecideTheDistributedOptimizer) {
  const auto strategy = [&](const std::string& options) {
    return answer(simulate + options)["strategy"].get<std::string>();
  };
  EXPECT_EQ(strategy(""), "distributed optimizer");
  EXPECT_EQ(strategy("--strategy no_shard"), "data parallel");
  EXPECT_EQ(strategy("--mesh tensor=2,pipeline=2,replicate=2"), "data parallel");
  EXPECT_EQ(strategy("--mesh tensor=2,pipeline=2,shard=2"), "distributed optimizer");
  EXPECT_THAT(refusal(simulate + std::string("--mesh tensor=2,pipeline=2,shard=2 "
                                             "--strategy no_shard")),
              HasSubstr("--strategy: no_shard is given, and --mesh says shard"));
}

TEST_F(Megatron, RefusalsNameTheOptionThatSaidIt) {
  EXPECT_THAT(refusal(simulate + std::string("--mesh tensor=3,pipeline=2 --world 12")),
              HasSubstr("--mesh: 8 attention heads do not divide over 3 tensor-parallel ranks"));
  EXPECT_THAT(refusal(simulate + std::string("--world 10")),
              HasSubstr("--world: 10 ranks are not a multiple of tensor 2 x pipeline 2"));
  EXPECT_THAT(refusal(simulate + std::string("--accelerate accelerate.yaml")),
              Not(HasSubstr("terminate")));
  EXPECT_THAT(refusal(simulate + std::string("--accumulate 4611686018427387904")),
              HasSubstr("--accumulate: 4611686018427387904 micro-batches of 1 sequences"));
  EXPECT_THAT(refusal("convert run.sh --to deepspeed"),
              HasSubstr("give it to `simulate --config`, `plan --config` or `lint`"));
}

// Megatron-LM clips at --clip-grad 1.0, and its dropout is 0.1, unless somebody says otherwise.
TEST_F(Megatron, DropoutAndClippingAreTakenOrRefused) {
  const auto script = [&](const std::string& options) {
    return answer(plan + options)["chosen"]["text"].get<std::string>();
  };
  EXPECT_THAT(script("--dropout on"), HasSubstr("--hidden-dropout 0.1\n"));
  EXPECT_THAT(script("--dropout off"), HasSubstr("--hidden-dropout 0\n"));
  for (const std::string verb : {simulate, plan})
    EXPECT_THAT(refusal(verb + "--clip 0"), HasSubstr("--clip: a step of Megatron-LM"));
}

TEST_F(Megatron, FiguresSayWhoseTheyAre) {
  EXPECT_EQ(workplace_.run(simulate + std::string("-o left")).code, 0);
  for (const char* figure : {"stages", "memory", "streams"})
    EXPECT_THAT(workplace_.read("left/figures/" + std::string(figure) + ".svg"),
                HasSubstr("megatron distributed optimizer on 8 ranks, predicted"));
}

TEST_F(Megatron, LintReadsACommandLine) {
  EXPECT_EQ(answer("lint run.sh")["findings"].size(), 0u);
  workplace_.write("bad.sh", workplace_.read("run.sh") + " --fp16\n");
  const Json found = answer("lint bad.sh", 1)["findings"];
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["key"], "--fp16");
  EXPECT_EQ(found[0]["line"], 3);
}

// What is written is simulated to the figures of the plan.
TEST_F(Megatron, PlanWritesACommandLineOfTheSameFigures) {
  const Json planned = answer(plan + std::string("-o left"));
  ASSERT_GE(planned["candidates"].size(), 2u);
  const Json& first = planned["candidates"][0];
  EXPECT_EQ(planned["chosen"]["text"], workplace_.read("left/megatron.sh"));
  const Json again = answer("simulate --config left/megatron.sh --cluster h100_sxm --rank " +
                            std::to_string(first["rank"].get<int>()));
  for (const char* key : {"step_time_ns", "tokens_per_s", "memory", "time", "world", "precision"})
    EXPECT_EQ(again[key], first[key]) << key;
  EXPECT_EQ(answer("lint left/megatron.sh")["findings"].size(), 0u);
  EXPECT_THAT(workplace_.read("left/megatron.sh"), HasSubstr("--rotary-base 500000"));
}

// Places are in the order of their step time, of a mesh each, and fit with the margin.
TEST_F(Megatron, PlanRanksMeshes) {
  const Json planned = answer(plan);
  std::int64_t before = 0;
  std::set<std::string> meshes;
  for (const Json& place : planned["candidates"]) {
    EXPECT_GE(place["step_time_ns"].get<std::int64_t>(), before);
    before = place["step_time_ns"].get<std::int64_t>();
    EXPECT_TRUE(meshes.insert(place["settings"]["mesh"].get<std::string>()).second);
    EXPECT_EQ(place["fits_word"], "yes");
  }
  for (const Json& loser : planned["dropped"]) EXPECT_NE(loser["why"], "");
}

TEST_F(Megatron, PlanSaysWhatFits) {
  const Json small = answer(plan + std::string("--device-memory 100MiB"), 1);
  EXPECT_EQ(small["candidates"].size(), 0u);
  ASSERT_GT(small["dropped"].size(), 0u);
  for (const Json& loser : small["dropped"])
    EXPECT_THAT(loser["why"].get<std::string>(),
                ::testing::ContainsRegex("^needs at least .* and a margin of 1.* GiB; the device "
                                         "has 100.* MiB$"));
  // 8 layers of the file, which says batch and length, too.
  const Json planned = answer("plan --config run.sh --cluster h100_sxm");
  EXPECT_EQ(planned["candidates"][0]["world"], 8);
  EXPECT_THAT(planned["chosen"]["text"].get<std::string>(), HasSubstr("--global-batch-size 32"));
}

// Recomputation is the layouts'; FP8 is not weighed, and stays.
TEST_F(Megatron, PlanSaysWhatItTakesOtherwiseThanTheFile) {
  workplace_.write("more.sh",
                   workplace_.read("run.sh").substr(0, workplace_.read("run.sh").size() - 1) +
                       " --tp-comm-overlap --fp8-format hybrid --frobnicate 3 "
                       "--recompute-granularity selective\n");
  const Outcome outcome = workplace_.run("plan --config more.sh --cluster h100_sxm --places 1");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* text : {"recomputation by what fits, and not the command line's",
                           "FP8 in all layouts, as the command line says",
                           "more.sh: flags that are not known here: --frobnicate (line 2)"})
    EXPECT_THAT(outcome.errors, HasSubstr(text));
}

// No layout is without it, so that it is said, and not that something does not divide.
TEST_F(Megatron, PlanSaysWhatContradictsInEveryLayout) {
  workplace_.write("experts.sh", workplace_.read("run.sh") + " --num-experts 8\n");
  EXPECT_THAT(refusal("plan --config experts.sh --cluster h100_sxm"),
              HasSubstr("experts.sh:3: --num-experts: experts without gated layers"));
  EXPECT_THAT(refusal("plan --config run.sh --cluster h100_sxm --seq 2048"),
              HasSubstr("run.sh:2: --max-position-embeddings: 1024 positions are fewer"));
  EXPECT_THAT(refusal("plan --runtime megatron --model config.json --cluster h100_sxm --world 7 "
                      "--tokens-per-batch 45056 --seq 4096"),
              HasSubstr("no layout of Megatron-LM divides 11 sequences and 6 layers over 7"));
}

TEST_F(Megatron, PlanRefusesWhatItDoesNotWeigh) {
  EXPECT_THAT(refusal(plan + std::string("--strategy zero1")),
              HasSubstr("--strategy: layouts with and without the distributed optimizer"));
  EXPECT_THAT(refusal(plan + std::string("--batch 2")),
              HasSubstr("--batch: micro-batches are chosen in a plan of Megatron-LM"));
  for (const std::string option :
       {"--train-tokens", "--at-least", "--deadline", "--budget", "--price-per-gpu-hour"})
    EXPECT_THAT(refusal(plan + option + " 3"),
                HasSubstr(option + ": the whole training is not weighed"));
  EXPECT_THAT(refusal("plan --runtime megatron,fsdp2 --model config.json --tokens-per-batch 65536"),
              HasSubstr("megatron is not weighed beside other runtimes"));
  EXPECT_THAT(refusal("plan --runtime fsdp2 --config run.sh --cluster h100_sxm"),
              HasSubstr("leave --runtime out"));
  EXPECT_THAT(refusal("plan --runtime megatron --model config.json --cluster h100_sxm --seq 4096"),
              HasSubstr("--tokens-per-batch"));
}

}  // namespace
}  // namespace shardscope::testing
