// The command line of Megatron-LM: flags, defaults, variables of scripts, contradictions.
#include "core/config/megatron/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/config/megatron/shell_words.h"

namespace shardscope::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace megatron;

std::vector<std::string> texts(std::string_view script) {
  std::vector<std::string> result;
  for (const ShellWord& word : shell_words(script)) result.push_back(word.text);
  return result;
}

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr std::string_view small_model =
    "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 512 ";

Arguments read(const std::string& flags) {
  return read_arguments(std::string(small_model) + flags, "run.sh");
}

std::string refusal(const std::string& flags, int world = 8) {
  return message([&] {
    Settings settings = read(flags).settings;
    settings.world = world;
    check(settings, "run.sh");
  });
}

TEST(ShellWords, FollowVariables) {
  EXPECT_THAT(texts("TP=4\n# PP=2\nx --a $TP ${TP} ${PP:-2} '$TP' \"${TP}\""),
              ElementsAre("4", "x", "--a", "4", "4", "2", "$TP", "4"));
  EXPECT_THAT(texts("A=8; B=$((A * 2 + (3 - 1) / 2)); echo $B $((B/0))"),
              ElementsAre("8", "17", "echo", "17", "$((B/0))"));
  EXPECT_THAT(texts("ARGS=\"--x 1 \\\n  --y 2\"\nA=( --z\n 3 )"),
              ElementsAre("--x", "1", "--y", "2", "--z", "3"));
  EXPECT_EQ(shell_words("a \\\n b").back(), (ShellWord{"b", 2}));
}

// Defaults of megatron/training/arguments.py and core/transformer/transformer_config.py.
TEST(MegatronArguments, HaveMegatronsDefaults) {
  const Arguments arguments = read("");
  const Settings& s = arguments.settings;
  EXPECT_TRUE(arguments.has_model);
  EXPECT_FALSE(arguments.has_world);
  EXPECT_EQ(s.shape.ffn, 1024);  // 4 h
  EXPECT_EQ(s.shape.kv_heads, 8);
  EXPECT_EQ(s.shape.head_size, 32);
  EXPECT_EQ(s.shape.family, "gpt2");
  EXPECT_EQ(s.hidden_dropout, 0.1);
  EXPECT_TRUE(s.tied && s.biases && s.layer_norm && !s.rotary && !s.gated);
  EXPECT_FALSE(s.sequence_parallel || s.distributed_optimizer || s.overlaps_gradients);
  EXPECT_EQ(s.parameters, Dtype::float32);
  EXPECT_EQ(s.attention, Attention::engine);
  EXPECT_EQ(s.recompute, Recompute::none);
  EXPECT_EQ(s.vocabulary_multiple, 128);
}

// 4 h 2 / 3 in multiples of 64: 682 becomes 640.
TEST(MegatronArguments, NarrowGatedLayers) { EXPECT_EQ(read("--swiglu").settings.shape.ffn, 640); }

TEST(MegatronArguments, AreReadFromAScript) {
  const Arguments arguments = read_arguments(R"(#!/bin/bash
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
TP=2
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES"
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32
    --group-query-attention --num-query-groups 8
    --ffn-hidden-size 14336 --swiglu --normalization RMSNorm
    --position-embedding-type rope --untie-embeddings-and-output-weights
    --disable-bias-linear --seq-length 4096   # tokens
)
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py ${MODEL_ARGS[@]} \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size 4 \
    --num-layers-per-virtual-pipeline-stage 4 --sequence-parallel \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --micro-batch-size=1 --global-batch-size 512 --bf16 --fp8-format hybrid \
    --recompute-granularity full --recompute-method block --recompute-num-layers 2 \
    --hidden-dropout 0 --attention-dropout 0 --vocab-size 128256 --lr 3e-4 \
    --use-mcore-models --frobnicate 7
)",
                                             "train.sh");
  const Settings& s = arguments.settings;
  EXPECT_EQ(s.world, 32);
  EXPECT_TRUE(arguments.has_world);
  EXPECT_EQ(s.tensor, 2);
  EXPECT_EQ(s.pipeline, 4);
  EXPECT_EQ(s.stages_per_rank, 2);  // 8 layers a rank
  EXPECT_EQ(s.data(), 4);
  EXPECT_EQ(s.micro_batches(), 128);
  EXPECT_EQ(s.shape.kv_heads, 8);
  EXPECT_EQ(s.shape.family, "llama");
  EXPECT_TRUE(s.gated && s.rotary && !s.layer_norm && !s.tied && !s.biases);
  EXPECT_TRUE(s.sequence_parallel && s.distributed_optimizer && s.overlaps_parameters);
  EXPECT_EQ(s.parameters, Dtype::bfloat16);
  EXPECT_EQ(s.gradients, Dtype::float32);
  EXPECT_EQ(s.float8, Float8::delayed);
  EXPECT_EQ(s.recompute, Recompute::full);
  EXPECT_TRUE(s.by_block);
  EXPECT_EQ(s.recompute_layers, 2);
  EXPECT_THAT(arguments.unknown, ElementsAre("--frobnicate (line 20)"));
  check(s, "train.sh");
}

TEST(MegatronArguments, ReadExperts) {
  const Settings s = read(
                         "--swiglu --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 128 "
                         "--moe-shared-expert-intermediate-size 256 --moe-layer-freq "
                         "'([0]*1+[1]*3)' --expert-model-parallel-size 4 "
                         "--multi-latent-attention --kv-lora-rank 64")
                         .settings;
  EXPECT_EQ(s.shape.experts, (ExpertShape{64, 6, 128, 2, 1}));
  EXPECT_EQ(s.shape.latents, (LatentShape{0, 64, 128, 64, 128}));
  EXPECT_EQ(s.expert, 4);
  EXPECT_EQ(s.shape.family, "deepseek_v3");
}

TEST(MegatronArguments, ReadPatternsOfLayersWithExperts) {
  const auto dense = [](const std::string& pattern) {
    return read("--swiglu --num-experts 8 --moe-layer-freq " + pattern)
        .settings.shape.experts.dense_layers;
  };
  EXPECT_EQ(dense("1"), 0);
  EXPECT_EQ(dense("[0]+[1]*26"), 1);
  EXPECT_EQ(dense("[0]*3+[1]*58"), 3);
  EXPECT_EQ(dense("([1]*4)"), 0);
  EXPECT_THAT(message([&] { dense("[0,1]*24"); }), HasSubstr("give layers without experts first"));
}

// The first 0 layers of each stage are none.
TEST(MegatronArguments, RunNoLayerAgainInBlocksOfNone) {
  const auto recompute = [](const std::string& layers) {
    return read("--recompute-granularity full --recompute-method block --recompute-num-layers " +
                layers)
        .settings.recompute;
  };
  EXPECT_EQ(recompute("0"), Recompute::none);
  EXPECT_EQ(recompute("1"), Recompute::full);
}

// 50257 tokens on 2 ranks: 256 x 197.
TEST(MegatronArguments, FillUpTheVocabulary) {
  EXPECT_EQ(read("--tensor-model-parallel-size 2").settings.padded_vocabulary(), 50432);
  EXPECT_EQ(read("--padded-vocab-size 50300").settings.padded_vocabulary(), 50300);
}

TEST(MegatronArguments, TellContradictionsInOneLine) {
  EXPECT_THAT(refusal("--sequence-parallel"),
              HasSubstr("run.sh: sequence_parallel is given without tensor parallelism"));
  EXPECT_THAT(refusal("--tensor-model-parallel-size 3", 3),
              HasSubstr("8 attention heads do not divide over 3 tensor-parallel ranks"));
  EXPECT_THAT(refusal("--pipeline-model-parallel-size 8"),
              HasSubstr("4 layers do not divide over 8 stages"));
  EXPECT_THAT(refusal("--tensor-model-parallel-size 2", 7),
              HasSubstr("7 ranks are not a multiple"));
  EXPECT_THAT(refusal("--overlap-param-gather --overlap-grad-reduce"),
              HasSubstr("without the distributed optimizer"));
  EXPECT_THAT(refusal("--tensor-model-parallel-size 2 --tp-comm-overlap"),
              HasSubstr("give --sequence-parallel"));
  EXPECT_THAT(refusal("--global-batch-size 12"), HasSubstr("give --global-batch-size with a "
                                                           "multiple of 8"));
  EXPECT_THAT(refusal("--expert-model-parallel-size 2"), HasSubstr("the model has no experts"));
  EXPECT_THAT(refusal("--context-parallel-size 8 --seq-length 520"),
              HasSubstr("520 tokens of a sequence"));
  EXPECT_THAT(refusal("--num-layers $LAYERS"),
              HasSubstr("run.sh:1: --num-layers: the script does not say what $LAYERS is"));
  EXPECT_THAT(refusal("--bf16 --fp16"), HasSubstr("run.sh:1: --fp16: --bf16 is given, too"));
  EXPECT_THAT(refusal("--use-megatron-fsdp"), HasSubstr("--use-megatron-fsdp: is not predicted"));
  EXPECT_EQ(refusal("--tensor-model-parallel-size 2 --sequence-parallel"), "no error");
}

TEST(MegatronArguments, AreTold) {
  EXPECT_TRUE(is_megatron("x --tensor-model-parallel-size 8"));
  EXPECT_TRUE(is_megatron(small_model));
  EXPECT_FALSE(is_megatron("swift sft --model x"));
  EXPECT_FALSE(is_megatron("model_name_or_path: x\nnum_train_epochs: 1\n"));
}

}  // namespace
}  // namespace shardscope::testing
