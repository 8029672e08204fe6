// The command line of Megatron-LM: flags, defaults, variables of scripts, contradictions.
#include "core/config/megatron/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/config/megatron/command_line.h"
#include "core/config/megatron/shell_words.h"

namespace shardscope::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace megatron;

std::vector<std::string> texts(std::string_view script) {
  std::vector<std::string> result;
  for (const ShellWord& word : read_shell(script, "run.sh").words) result.push_back(word.text);
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
    const Arguments arguments = read(flags);
    Settings settings = arguments.settings;
    settings.world = world;
    check(settings, arguments.origin);
  });
}

TEST(ShellWords, FollowVariables) {
  EXPECT_THAT(texts("TP=4\n# PP=2\nx --a $TP ${TP} ${PP:-2} '$TP' \"${TP}\""),
              ElementsAre("4", "x", "--a", "4", "4", "2", "$TP", "4"));
  EXPECT_THAT(texts("A=8; B=$((A * 2 + (3 - 1) / 2)); echo $B $((B/0))"),
              ElementsAre("8", "17", "echo", "17", "$((...))"));
  EXPECT_THAT(texts("ARGS=\"--x 1 \\\n  --y 2\"\nA=( --z\n 3 )"),
              ElementsAre("--x", "1", "--y", "2", "--z", "3"));
  EXPECT_EQ(read_shell("a \\\n b", "run.sh").words.back(), (ShellWord{"b", 2, ""}));
}

// As bash 5.2 expands the same lines.
TEST(ShellWords, AreWhatBashMakesOfThem) {
  EXPECT_THAT(texts("MBS=2 TP=4 PP=2 W=64; x $((MBS*(W/(TP*PP)))) $(( (TP + PP) * 3 ))"),
              ElementsAre("2", "4", "2", "64", "x", "16", "18"));
  EXPECT_THAT(texts("x ${A:-${B:-4}} ${A:=5} $A ${A:+set} ${C:+set} ${A%5}"),
              ElementsAre("x", "4", "5", "5", "set", "${A%5}"));
  EXPECT_THAT(texts("A=; x ${A:-7} ${A-7}"), ElementsAre("x", "7"));
  EXPECT_THAT(texts("A=1; A+=2; x $A"), ElementsAre("1", "2", "x", "12"));
  EXPECT_THAT(texts("D=$(dirname \"$0\") G=`nvidia-smi -L | wc -l`; x \"$D/a\" $G"),
              ElementsAre("$(...)", "$(...)", "x", "$(...)/a", "$(...)"));
  EXPECT_TRUE(read_shell("x \"$@\"", "run.sh").passes_arguments);
}

TEST(ShellWords, KeepLinesOfWhatIsWrittenInQuotes) {
  const auto words = read_shell("A=\"--x 1 \\\n  --y 2\"\n\nrun $A --z", "run.sh").words;
  EXPECT_THAT(words, ElementsAre(ShellWord{"--x", 1, "", true}, ShellWord{"1", 1, ""},
                                 ShellWord{"--y", 2, ""}, ShellWord{"2", 2, ""},
                                 ShellWord{"run", 4, "", true}, ShellWord{"--x", 4, ""},
                                 ShellWord{"1", 4, ""}, ShellWord{"--y", 4, ""},
                                 ShellWord{"2", 4, ""}, ShellWord{"--z", 4, ""}));
}

// Doubling 40 times would make 2^40 bytes.
TEST(ShellWords, EndWhereTheyWouldFillTheMemory) {
  std::string doubling = "A=--aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  EXPECT_THAT(message([&] { read_shell(doubling, "run.sh"); }),
              HasSubstr("run.sh: its variables expand to more than 16 MiB"));
  std::string many;
  for (int i = 0; i < 70000; ++i) many += "a\n";
  EXPECT_THAT(message([&] { read_shell(many, "run.sh"); }), HasSubstr("has more than 65536 words"));
  const std::string large((std::size_t{4} << 20) + 1, 'a');
  EXPECT_THAT(message([&] { read_shell(large, "run.sh"); }),
              HasSubstr("run.sh: has 4194305 bytes, and a script of Megatron-LM may have 4194304"));
  EXPECT_EQ(read_shell(large.substr(1), "run.sh").words.size(), 1u);
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
  EXPECT_TRUE(s.tied && s.biases && s.layer_norm && !s.gated);
  EXPECT_FALSE(s.sequence_parallel || s.distributed_optimizer || s.overlaps_gradients);
  EXPECT_EQ(s.positions, Positions::learned);
  EXPECT_EQ(s.parameters, Dtype::float32);
  EXPECT_EQ(s.attention, Attention::engine);
  EXPECT_EQ(s.recompute, Recompute::none);
  EXPECT_EQ(s.vocabulary_multiple, 128);
}

// 4 h 2 / 3 in multiples of 64: 682 becomes 640. Of quick-geglu arguments.py says nothing.
TEST(MegatronArguments, NarrowGatedLayers) {
  EXPECT_EQ(read("--swiglu").settings.shape.ffn, 640);
  EXPECT_EQ(read("--quick-geglu").settings.shape.ffn, 1024);
}

TEST(MegatronArguments, SayHowTokensKnowTheirPlace) {
  const auto of = [](const std::string& flags) { return read(flags).settings; };
  EXPECT_EQ(of("--max-position-embeddings 2048").position_rows(), 2048);
  EXPECT_EQ(of("").position_rows(), 512);  // of --seq-length
  for (const char* kind : {"rope", "yarn", "mrope"}) {
    const Settings s = of(std::string("--position-embedding-type ") + kind);
    EXPECT_EQ(s.positions, Positions::rotary);
    EXPECT_EQ(s.position_rows(), 0);
  }
  EXPECT_EQ(of("--use-rotary-position-embeddings").positions, Positions::rotary);
  EXPECT_EQ(of("--position-embedding-type none").positions, Positions::none);
  EXPECT_THAT(refusal("--position-embedding-type relative"),
              HasSubstr("run.sh:1: --position-embedding-type: \"relative\": that is not predicted; "
                        "give learned_absolute, rope, yarn, mrope, none"));
  EXPECT_THAT(refusal("--no-position-embedding"), HasSubstr("give --position-embedding-type none"));
  EXPECT_THAT(refusal("--max-position-embeddings 256"),
              HasSubstr("run.sh:1: --max-position-embeddings: 256 positions are fewer than the 512 "
                        "tokens of a sequence"));
}

// arguments.py asserts max_position_embeddings >= seq_length whatever the kind of positions.
TEST(MegatronArguments, AskForPositionsOfAllTokens) {
  for (const std::string type : {"learned_absolute", "rope", "none"})
    EXPECT_THAT(refusal("--max-position-embeddings 256 --position-embedding-type " + type),
                HasSubstr("256 positions are fewer than the 512 tokens of a sequence"));
  Settings s = read("--max-position-embeddings 512 --position-embedding-type rope").settings;
  s.take_length(1024);
  EXPECT_THAT(command_line(s, 8, ""), HasSubstr("--max-position-embeddings 1024"));
  Settings learned = read("--max-position-embeddings 512").settings;
  learned.take_length(1024);
  EXPECT_EQ(learned.position_rows(), 512);
}

// transformer_config.py: without a number of groups there are as many as heads.
TEST(MegatronArguments, HaveAsManyQueryGroupsAsHeadsUnlessTheySay) {
  EXPECT_EQ(read("--group-query-attention").settings.shape.kv_heads, 8);
  EXPECT_EQ(read("--group-query-attention --num-query-groups 2").settings.shape.kv_heads, 2);
  EXPECT_EQ(read("--num-query-groups 2").settings.shape.kv_heads, 8);
}

// get_num_layers_to_build of transformer_block.py, by hand.
TEST(MegatronArguments, DivideLayersUnevenly) {
  const auto layers = [](const std::string& flags) {
    const Arguments arguments = read_arguments(
        "--num-layers 30 --hidden-size 256 --num-attention-heads 8 --seq-length 512 " + flags,
        "run.sh");
    Settings settings = arguments.settings;
    settings.world = settings.pipeline;
    settings.global_batch = settings.pipeline;
    check(settings, arguments.origin);
    return settings.stage_layers();
  };
  EXPECT_THAT(layers("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 6"),
              ElementsAre(6, 8, 8, 8));
  EXPECT_THAT(layers("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 8 "
                     "--decoder-last-pipeline-num-layers 6"),
              ElementsAre(8, 8, 8, 6));
  EXPECT_THAT(layers("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 14 "
                     "--decoder-last-pipeline-num-layers 16"),
              ElementsAre(14, 16));
  EXPECT_THAT(layers("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
                     "--decoder-last-pipeline-num-layers 6"),
              ElementsAre(4, 4, 4, 3, 4, 4, 4, 3));
  EXPECT_THAT(layers("--pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split "
                     "--account-for-loss-in-pipeline-split"),
              ElementsAre(7, 8, 8, 7));
}

TEST(MegatronArguments, TellContradictionsOfUnevenStages) {
  EXPECT_THAT(refusal("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 4"),
              HasSubstr("run.sh:1: --decoder-first-pipeline-num-layers: 0 of 4 layers are left for "
                        "1 other pipeline ranks"));
  EXPECT_THAT(
      refusal("--pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 2"),
      HasSubstr("2 of 4 layers are left for 3 other pipeline ranks; leave a multiple of 3"));
  EXPECT_THAT(refusal("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                      "--decoder-first-pipeline-num-layers 1"),
              HasSubstr("1 layers of a rank do not divide over its 2 virtual stages"));
  EXPECT_THAT(refusal("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1 "
                      "--account-for-loss-in-pipeline-split"),
              HasSubstr("give one of the two"));
  EXPECT_THAT(refusal("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 "
                      "--num-virtual-stages-per-pipeline-rank 2"),
              HasSubstr("--num-virtual-stages-per-pipeline-rank is given, too"));
}

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
  EXPECT_EQ(s.positions, Positions::rotary);
  EXPECT_TRUE(s.gated && !s.layer_norm && !s.tied && !s.biases);
  EXPECT_TRUE(s.sequence_parallel && s.distributed_optimizer && s.overlaps_parameters);
  EXPECT_EQ(s.parameters, Dtype::bfloat16);
  EXPECT_EQ(s.gradients, Dtype::float32);
  EXPECT_EQ(s.float8, Float8::delayed);
  EXPECT_EQ(s.recompute, Recompute::full);
  EXPECT_TRUE(s.by_block);
  EXPECT_EQ(s.recompute_layers, 2);
  ASSERT_EQ(arguments.remarks.size(), 2u);
  EXPECT_EQ(arguments.remarks.front().flag, "use-mcore-models");
  EXPECT_EQ(arguments.remarks.front().kind, Remark::Kind::deprecated);
  EXPECT_EQ(arguments.remarks.back().flag, "frobnicate");
  EXPECT_EQ(arguments.remarks.back().line, 20);
  EXPECT_EQ(arguments.remarks.back().kind, Remark::Kind::unknown);
  check(s, arguments.origin);
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
  EXPECT_EQ(read("--swiglu --num-experts 8").settings.shape.family, "mixtral");
  EXPECT_EQ(read("--swiglu --num-experts 8 --qk-layernorm").settings.shape.family, "qwen3_moe");
}

TEST(MegatronArguments, ReadPatternsOfLayersWithExperts) {
  const auto dense = [](const std::string& pattern) {
    return read("--swiglu --num-experts 8 --moe-layer-freq " + pattern)
        .settings.shape.experts.dense_layers;
  };
  EXPECT_EQ(dense("1"), 0);
  EXPECT_EQ(dense("[0]+[1]*3"), 1);
  EXPECT_EQ(dense("[0]*3+[1]*1"), 3);
  EXPECT_EQ(dense("([1]*4)"), 0);
  EXPECT_THAT(message([&] { dense("[0,1]*2"); }), HasSubstr("give layers without experts first"));
  EXPECT_THAT(message([&] { dense("[0]*3+[1]*58"); }),
              HasSubstr("the pattern is of 61 layers, and the model has 4"));
}

TEST(MegatronArguments, TakeMixturesOfExpertsOrSayWhyNot) {
  const std::string mixture = "--swiglu --num-experts 8 ";
  EXPECT_EQ(refusal(mixture + "--expert-model-parallel-size 4"), "no error");
  EXPECT_THAT(refusal(mixture + "--tensor-model-parallel-size 2"),
              HasSubstr("run.sh:1: --tensor-model-parallel-size: 8 experts a layer beside 2 "
                        "tensor-parallel ranks: that is not predicted; give "
                        "--tensor-model-parallel-size 1"));
  EXPECT_THAT(refusal(mixture + "--expert-tensor-parallel-size 2"),
              HasSubstr("give --expert-tensor-parallel-size 1"));
  EXPECT_THAT(refusal("--num-experts 8"), HasSubstr("run.sh:1: --num-experts: experts without "
                                                    "gated layers: that is not predicted"));
  EXPECT_THAT(refusal(mixture + "--expert-model-parallel-size 3", 3),
              HasSubstr("8 experts do not divide over 3 expert-parallel ranks"));
  EXPECT_THAT(refusal(mixture + "--moe-router-topk 9"), HasSubstr("give 1 to 8"));
  EXPECT_THAT(refusal("--moe-ffn-hidden-size 128"), HasSubstr("the model has no experts"));
  EXPECT_THAT(refusal(mixture + "--moe-pad-expert-input-to-capacity "
                                "--moe-expert-capacity-factor 1.5"),
              HasSubstr("experts filled up to 1.5 of their equal share: that is not predicted"));
  EXPECT_EQ(refusal(mixture + "--moe-pad-expert-input-to-capacity "
                              "--moe-expert-capacity-factor 1.0"),
            "no error");
  EXPECT_THAT(refusal("--multi-latent-attention"), HasSubstr("in a model without experts"));
  EXPECT_THAT(refusal(mixture + "--multi-latent-attention --group-query-attention"),
              HasSubstr("attention over latents has no query groups"));
}

// 2^18 forwards are played at most; 2^24 sequences are one each on a rank.
TEST(MegatronArguments, BoundMicroBatches) {
  EXPECT_THAT(refusal("--global-batch-size 16777216"),
              HasSubstr("run.sh:1: --global-batch-size: 2097152 micro-batches in 1 stage are more "
                        "than 262144 forwards of a step: that is not predicted; give "
                        "--global-batch-size of at most 2097152"));
  EXPECT_EQ(refusal("--global-batch-size 2097152"), "no error");
  EXPECT_THAT(refusal("--global-batch-size 2147483647"), HasSubstr("give 0 to 16777216"));
  EXPECT_THAT(refusal("--global-batch-size 99999999999999999999"),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal("--global-batch-size 0"), HasSubstr("the value is 0"));
  EXPECT_THAT(refusal("--micro-batch-size 16777216"), HasSubstr("--micro-batch-size x "
                                                                "--seq-length is 8589934592"));
  EXPECT_THAT(refusal("--micro-batch-size 0"), HasSubstr("give 1 to 16777216"));
}

// arguments.py and transformer_config.py: neither method nor number has a default.
TEST(MegatronArguments, NeedAMethodOfFullRecomputation) {
  EXPECT_THAT(refusal("--recompute-granularity full"),
              HasSubstr("give --recompute-method uniform or block"));
  EXPECT_THAT(refusal("--recompute-granularity full --recompute-method uniform"),
              HasSubstr("give --recompute-num-layers"));
  EXPECT_THAT(refusal("--recompute-activations --recompute-method uniform"),
              HasSubstr("selective recomputation does not take it"));
  EXPECT_EQ(refusal("--recompute-activations --recompute-modules core_attn 2>&1 | tee log"),
            "no error");
  EXPECT_THAT(refusal("--tensor-model-parallel-size 2 --sequence-parallel --recompute-granularity "
                      "full --recompute-method uniform --recompute-num-layers 1 "
                      "--distribute-saved-activations"),
              HasSubstr("has the activations in parts already"));
}

TEST(MegatronArguments, SayWhichOfSeveralValuesCounts) {
  const Arguments arguments = read_arguments(
      std::string(small_model) +
          "\nif [ $SIZE = 8 ]; then\n TP=2\nelse\n TP=4\nfi\nx --tensor-model-parallel-size $TP "
          "--seq-length 256",
      "run.sh");
  EXPECT_EQ(arguments.settings.tensor, 4);
  EXPECT_EQ(arguments.settings.shape.seq, 256);
  EXPECT_THAT(arguments.assumed,
              ::testing::Contains("--tensor-model-parallel-size (line 7): the script sets $TP to "
                                  "several values: the last one before, 4, is taken"));
  EXPECT_THAT(arguments.assumed,
              ::testing::Contains("--seq-length (line 7): stands several times with other values: "
                                  "the last one, 256, is taken"));
}

// What is computed from a variable of several values is as unsure as it.
TEST(MegatronArguments, SayWhatComesFromSeveralValues) {
  const Arguments arguments = read_arguments(
      std::string(small_model) +
          "\nif [ $SIZE = 8 ]; then\n TP=2\nelse\n TP=4\nfi\nPP=$((8 / TP))\nGROUP=$PP\n"
          "x --pipeline-model-parallel-size $GROUP --micro-batch-size 2",
      "run.sh");
  EXPECT_EQ(arguments.settings.pipeline, 2);
  EXPECT_THAT(arguments.assumed,
              ::testing::Contains("--pipeline-model-parallel-size (line 9): the script sets $TP to "
                                  "several values: the last one before, 2, is taken"));
  EXPECT_THAT(arguments.assumed,
              ::testing::Not(::testing::Contains(HasSubstr("--micro-batch-size (line"))));
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

// A command ends with its line, an array with its bracket.
TEST(ShellWords, SayWhereCommandsBegin) {
  const auto begins = [](std::string_view script) {
    std::vector<std::string> result;
    for (const ShellWord& word : read_shell(script, "run.sh").words)
      if (word.begins) result.push_back(word.text);
    return result;
  };
  EXPECT_THAT(begins("a b \\\n c\nd e | f; g"), ElementsAre("a", "d", "f", "g"));
  EXPECT_THAT(begins("A=(\n --x\n 1 )\nrun ${A[@]} 2"), ElementsAre("--x", "run"));
  EXPECT_THAT(begins("B=\"--y 2\"\n"), ElementsAre("--y"));
}

// argparse: names with dashes, switches without a value, words of a list of choices. torchrun
// takes dashes and underscores.
TEST(MegatronArguments, RefuseWhatArgparseRefuses) {
  EXPECT_THAT(refusal("--micro_batch_size 2"),
              HasSubstr("--micro-batch-size: Megatron-LM has no --micro_batch_size; write"));
  EXPECT_THAT(refusal("--fp8_param_gather"), HasSubstr("Megatron-LM has no --fp8_param_gather"));
  EXPECT_EQ(refusal("--nproc_per_node 8 --frob_nicate 2"), "no error");
  EXPECT_THAT(refusal("--bf16 true"),
              HasSubstr("run.sh:1: --bf16: is a switch, and \"true\" stands behind it"));
  EXPECT_THAT(refusal("--swiglu=False"), HasSubstr("--swiglu: is a switch"));
  EXPECT_EQ(refusal("--bf16\nDEBUG=1\ntrue"), "no error");
  EXPECT_THAT(refusal("--normalization Layernorm"),
              HasSubstr("--normalization: Megatron-LM has no \"Layernorm\"; give LayerNorm"));
  EXPECT_FALSE(inspect_arguments("--num-layers 2 --fp8-recipe custom", "run.sh")
                   .problems.front()
                   .is_refused);
}

// 50257 tokens on 2 ranks: 256 x 197.
TEST(MegatronArguments, FillUpTheVocabulary) {
  EXPECT_EQ(read("--tensor-model-parallel-size 2").settings.padded_vocabulary(), 50432);
  EXPECT_EQ(read("--padded-vocab-size 50300").settings.padded_vocabulary(), 50300);
}

TEST(MegatronArguments, TellContradictionsInOneLine) {
  EXPECT_THAT(refusal("--sequence-parallel"),
              HasSubstr("run.sh:1: --sequence-parallel: sequence parallelism without tensor "
                        "parallelism"));
  EXPECT_THAT(refusal("--tensor-model-parallel-size 3", 3),
              HasSubstr("8 attention heads do not divide over 3 tensor-parallel ranks"));
  EXPECT_THAT(refusal("--pipeline-model-parallel-size 8"),
              HasSubstr("4 layers do not divide over 8 stages"));
  EXPECT_THAT(refusal("--tensor-model-parallel-size 2", 7),
              HasSubstr("7 ranks are not a multiple"));
  EXPECT_THAT(refusal("--overlap-param-gather --overlap-grad-reduce"),
              HasSubstr("run.sh:1: --overlap-param-gather: parameters are gathered by the "
                        "distributed optimizer only"));
  EXPECT_THAT(refusal("--tensor-model-parallel-size 2 --tp-comm-overlap"),
              HasSubstr("give --sequence-parallel"));
  EXPECT_THAT(refusal("--global-batch-size 12"), HasSubstr("give --global-batch-size with a "
                                                           "multiple of 8"));
  EXPECT_THAT(refusal("--expert-model-parallel-size 2"), HasSubstr("the model has no experts"));
  EXPECT_THAT(refusal("--context-parallel-size 8 --seq-length 520"),
              HasSubstr("520 tokens of a sequence"));
  EXPECT_THAT(refusal("--num-layers $LAYERS"),
              HasSubstr("run.sh:1: --num-layers: the script does not say what $LAYERS is"));
  EXPECT_THAT(refusal("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"),
              HasSubstr("run.sh:1: --cross-entropy-fusion-impl: Megatron-LM refuses"));
  EXPECT_EQ(refusal("--cross-entropy-loss-fusion"), "no error");
  EXPECT_EQ(refusal("--cross-entropy-fusion-impl te"), "no error");
  EXPECT_THAT(refusal("--bf16 --fp16"), HasSubstr("run.sh:1: --fp16: --bf16 is given, too"));
  EXPECT_THAT(refusal("--num-attention-heads 6"), HasSubstr("give --kv-channels"));
  EXPECT_THAT(refusal("--batch-size 4"), HasSubstr("give --micro-batch-size"));
  EXPECT_THAT(
      refusal("--tensor-model-parallel-size 4 --group-query-attention --num-query-groups 2"),
      HasSubstr("2 query groups are copied to 4 tensor-parallel ranks: that is not "
                "predicted"));
  EXPECT_THAT(refusal("--use-megatron-fsdp"), HasSubstr("--use-megatron-fsdp: is not predicted"));
  EXPECT_EQ(refusal("--tensor-model-parallel-size 2 --sequence-parallel"), "no error");
}

// What is written is read back to the same settings.
TEST(MegatronArguments, AreWrittenAsTheyAreRead) {
  for (const char* flags :
       {"--nproc-per-node 8",
        "--nproc-per-node 4 --nnodes 4 --bf16 --swiglu --group-query-attention --num-query-groups "
        "4 "
        "--position-embedding-type rope --rotary-base 500000 --normalization RMSNorm "
        "--disable-bias-linear --untie-embeddings-and-output-weights --hidden-dropout 0 "
        "--attention-dropout 0 --tensor-model-parallel-size 2 --sequence-parallel "
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
        "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
        "--micro-batch-size 2 --global-batch-size 64 --recompute-granularity full "
        "--recompute-method uniform --recompute-num-layers 1 --fp8-format hybrid "
        "--ffn-hidden-size 640",
        "--nproc-per-node 4 --fp16 --pipeline-model-parallel-size 2 --recompute-activations "
        "--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3 "
        "--attention-backend unfused --position-embedding-type none --global-batch-size 8 "
        "--max-position-embeddings 1024 --padded-vocab-size 50300",
        "--nproc-per-node 8 --bf16 --grad-reduce-in-bf16 --swiglu --num-experts 8 "
        "--moe-router-topk 3 --moe-ffn-hidden-size 128 --moe-layer-freq [0]*1+[1]*3 "
        "--expert-model-parallel-size 4 --moe-shared-expert-intermediate-size 256 "
        "--multi-latent-attention --q-lora-rank 32 --kv-lora-rank 64 --context-parallel-size 2 "
        "--attention-backend flash --position-embedding-type rope"}) {
    Settings settings = read(flags).settings;
    settings.global_batch = settings.sequences();
    if (settings.max_positions == 0) settings.max_positions = settings.shape.seq;
    const std::string script = command_line(settings, 4, "a test");
    const Arguments again = read_arguments(script, "again.sh");
    EXPECT_EQ(again.settings, settings) << script;
    EXPECT_TRUE(again.has_model && again.has_length && again.has_world);
    EXPECT_TRUE(again.remarks.empty()) << script;
    EXPECT_TRUE(again.missing.empty());
  }
}

TEST(MegatronArguments, AreTold) {
  EXPECT_TRUE(is_megatron("x --tensor-model-parallel-size 8"));
  EXPECT_TRUE(is_megatron(small_model));
  EXPECT_FALSE(is_megatron("swift sft --model x"));
  EXPECT_FALSE(is_megatron("model_name_or_path: x\nnum_train_epochs: 1\n"));
}

}  // namespace
}  // namespace shardscope::testing
