// `shardscope lint`: findings like a compiler's, rules that need a model, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string accelerate_file(const std::string& fsdp, const std::string& rest = "") {
  return "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n" + rest +
         "fsdp_config:\n" + fsdp;
}

class Lint : public ::testing::Test {
 protected:
  Lint() {
    workplace_.write("gpt2.json",
                     R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4})");
    workplace_.write("bert.json", R"({"model_type": "bert", "num_hidden_layers": 2,
                                      "architectures": ["BertForSequenceClassification"]})");
    workplace_.write("t5.json", R"({"model_type": "t5", "num_layers": 2,
                                    "architectures": ["T5ForConditionalGeneration"]})");
  }
  std::vector<std::string> rules(const std::string& arguments, int code) const {
    const Outcome outcome = workplace_.run("lint " + arguments + " --json");
    EXPECT_EQ(outcome.code, code) << outcome.output << outcome.errors;
    std::vector<std::string> names;
    const Json json = Json::parse(outcome.output);
    for (const Json& finding : json["findings"]) {
      names.push_back(finding["rule"]);
      EXPECT_THAT(listed_rules(), HasSubstr("  " + names.back() + " ")) << "in --rules";
    }
    return names;
  }
  std::string listed_rules() const { return workplace_.run("lint --rules").output; }
  Workplace workplace_;
};

TEST_F(Lint, AnIgnoredKeyIsNamedWithItsLineAndTheMend) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n"
                                             "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n"));
  const Outcome outcome = workplace_.run("lint c.yaml");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("c.yaml:6: warning: "
                                        "fsdp_config.fsdp_backward_prefetch_policy: "));
  EXPECT_THAT(outcome.output, HasSubstr("[ignored-key]\n    fix: "));
}

TEST_F(Lint, WhatIsNoNumberIsNotCalledQuoted) {
  workplace_.write("c.yaml", "distributed_type: MULTI_GPU\nnum_processes: eight\n");
  const Outcome outcome = workplace_.run("lint c.yaml");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("expected a whole number, got \"eight\""));
}

// The Trainer's optim is axolotl's optimizer.
TEST_F(Lint, AnOptimizerThatNobodyHasIsNamedByTheFilesOwnKey) {
  workplace_.write("ax.yaml",
                   "base_model: m\nsequence_len: 64\nmicro_batch_size: 1\noptimizer: adamw8bit\n");
  workplace_.write("arguments.json",
                   "{\"output_dir\": \"o\", \"per_device_train_batch_size\": 1,\n"
                   "\"optim\": \"adam_torch\"}\n");
  const Outcome outcome = workplace_.run("lint ax.yaml");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("ax.yaml:4: error: optimizer: "), HasSubstr("\"adamw_8bit\"?")));
  EXPECT_THAT(workplace_.run("lint arguments.json").output,
              AllOf(HasSubstr(":2: error: optim: "), HasSubstr("\"adamw_torch\"?")));
}

// What a checkpoint of a quantised base and adapters takes does not follow from all parameters.
TEST_F(Lint, AnAdaptersCheckpointIsNotSizedAsTheWholeModel) {
  workplace_.write("big.json", R"({"model_type": "llama", "num_hidden_layers": 80,
      "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
      "num_key_value_heads": 8, "vocab_size": 32000})");
  const std::string whole =
      "base_model: m\nsequence_len: 128\nmicro_batch_size: 1\nfsdp: [full_shard, auto_wrap]\n"
      "fsdp_config:\n  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"
      "  fsdp_state_dict_type: FULL_STATE_DICT\n";
  workplace_.write("whole.yaml", whole);
  workplace_.write("adapter.yaml", whole +
                                       "adapter: qlora\nload_in_4bit: true\nlora_r: 8\n"
                                       "lora_alpha: 16\nlora_target_linear: true\n");
  const auto findings = [&](const char* file) {
    return workplace_.run(std::string("lint ") + file + " --model big.json --world 4").output;
  };
  EXPECT_THAT(findings("whole.yaml"), HasSubstr("GiB in float32"));
  EXPECT_THAT(findings("adapter.yaml"),
              AllOf(Not(HasSubstr("GiB in float32")),
                    HasSubstr(":7: note: fsdp_config.fsdp_state_dict_type")));
}

// accelerate 1.15, utils/launch.py, prepare_multi_gpu_env: num_processes // num_machines on each
// machine, and str(main_process_ip) as the address.
TEST_F(Lint, MachinesThatCannotMeetAreSaid) {
  const auto file = [](const std::string& rest) {
    return accelerate_file("  fsdp_version: 2\n", rest);
  };
  workplace_.write("two.yaml", file("num_machines: 2\n"));
  EXPECT_THAT(rules("two.yaml", 0), Contains("no-main-process-ip"));
  workplace_.write("met.yaml", file("num_machines: 2\nmain_process_ip: 10.0.0.1\n"));
  EXPECT_THAT(rules("met.yaml", 0), ::testing::Not(Contains("no-main-process-ip")));
  workplace_.write("odd.yaml", file("num_machines: 3\nmain_process_ip: 10.0.0.1\n"));
  EXPECT_THAT(rules("odd.yaml", 1), Contains("processes"));
  EXPECT_THAT(workplace_.run("lint odd.yaml").output,
              HasSubstr("accelerate starts 2 on each, 6 in all"));
  workplace_.write("negative.yaml", replaced(file(""), "num_processes: 8", "num_processes: -8"));
  EXPECT_THAT(rules("negative.yaml", 1), Contains("processes"));
}

// One finding each: accelerate itself takes them, and torchrun fails later. Port 0 is a free one.
TEST_F(Lint, MachinesThatCannotBeAreOneFindingEach) {
  const std::string met = "main_process_ip: 10.0.0.1\n";
  const auto findings = [&](const std::string& rest) {
    workplace_.write("c.yaml", accelerate_file("  fsdp_version: 2\n", rest));
    const Json json = Json::parse(workplace_.run("lint c.yaml --json").output);
    std::vector<std::string> found;
    for (const Json& finding : json["findings"])
      if (finding["rule"] == "machines") found.push_back(finding["severity"]);
    return found;
  };
  const std::vector<std::string> one{"error"}, none;
  EXPECT_EQ(findings("num_machines: -2\n"), one);
  EXPECT_EQ(findings("num_machines: 0\nmachine_rank: 5\n"), one);
  EXPECT_EQ(findings("num_machines: 2\nmachine_rank: 5\n" + met), one);
  EXPECT_EQ(findings("num_machines: 2\nmachine_rank: 2\n" + met), one);
  EXPECT_EQ(findings("num_machines: 2\nmachine_rank: 1\n" + met), none);
  EXPECT_EQ(findings("main_process_port: 99999999\n"), one);
  EXPECT_EQ(findings("main_process_port: 65536\n"), one);
  EXPECT_EQ(findings("main_process_port: 65535\n"), none);
  EXPECT_EQ(findings("main_process_port: 0\n"), none);
  EXPECT_THAT(rules("c.yaml", 0), Not(Contains("machines")));
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 2\n", "num_machines: -2\n"));
  EXPECT_THAT(rules("c.yaml", 1), Contains("machines"));
}

TEST_F(Lint, Fp8IsAWarningSinceItsLibraryMayBeThere) {
  workplace_.write("c.yaml", replaced(accelerate_file("  fsdp_version: 2\n"), "bf16", "fp8"));
  EXPECT_THAT(rules("c.yaml", 0), Contains("fp8-libraries"));
}

TEST_F(Lint, AnotherWordIsNoSuggestion) {
  workplace_.write("ds.json", R"({"train_batch_size": 8, "pipeline_parallel_size": 2})");
  const Outcome outcome = workplace_.run("lint ds.json");
  EXPECT_THAT(outcome.output, HasSubstr("pipeline_parallel_size"));
  EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr("sequence_parallel_size")));
}

TEST_F(Lint, AnErrorIsExitOne) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n  fsdp_sharding_strategy: 6\n"));
  EXPECT_THAT(rules("c.yaml", 1), Contains("refused"));
}

TEST_F(Lint, AClassThatTheModelDoesNotHaveIsNamedWithTheNearest) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n"
                                             "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                                             "  fsdp_transformer_layer_cls_to_wrap: GPT2Blok\n"));
  EXPECT_THAT(rules("c.yaml --model gpt2.json", 1), Contains("unknown-class"));
  EXPECT_THAT(workplace_.run("lint c.yaml --model gpt2.json").output,
              HasSubstr("c.yaml:7: error: "));
  EXPECT_THAT(workplace_.run("lint c.yaml --model gpt2.json").output, HasSubstr("write GPT2Block"));
}

// GPT-2 ties lm_head to wte; a unit around the embedding alone splits the two.
TEST_F(Lint, ATiedParameterInTwoUnitsIsFlattenedTwiceOrLeftInTheFirst) {
  const std::string split =
      "  fsdp_version: 1\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_transformer_layer_cls_to_wrap: Embedding\n";
  workplace_.write("twice.yaml", accelerate_file(split + "  fsdp_use_orig_params: false\n"));
  workplace_.write("first.yaml", accelerate_file(split + "  fsdp_use_orig_params: true\n"));
  EXPECT_THAT(rules("twice.yaml --model gpt2.json", 0), Contains("shared-parameters-split"));
  EXPECT_THAT(workplace_.run("lint twice.yaml --model gpt2.json").output,
              HasSubstr("flattens it twice"));
  EXPECT_THAT(workplace_.run("lint first.yaml --model gpt2.json").output,
              HasSubstr("first unit alone"));
}

TEST_F(Lint, FlatParametersLoseTheOptimizersGroups) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n  fsdp_use_orig_params: false\n"));
  EXPECT_THAT(rules("c.yaml --model gpt2.json", 0), Contains("parameter-groups-lost"));
}

// Recorded: accelerate's default classes of BERT hold BertEmbeddings, inside of which version 2
// makes another unit.
TEST_F(Lint, BertsDefaultClassesAreRefusedByVersion2) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 2\n"
                                             "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"));
  EXPECT_THAT(rules("c.yaml --model bert.json", 1), Contains("refused-units"));
  EXPECT_THAT(rules("c.yaml --model gpt2.json", 0), Not(Contains("refused-units")));
}

// Recorded: T5's embeddings are tied across groups, which the first forward refuses.
TEST_F(Lint, T5IsRefusedByVersion2AtTheFirstForward) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 2\n"
                                             "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"));
  EXPECT_THAT(rules("c.yaml --model t5.json", 1), Contains("refused-at-first-forward"));
}

TEST_F(Lint, ASizeThatNoModuleReachesWrapsNothing) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n"
                                             "  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n"
                                             "  fsdp_min_num_params: 2000000000\n"));
  EXPECT_THAT(rules("c.yaml --model gpt2.json", 0), Contains("size-wraps-nothing"));
}

TEST_F(Lint, AThresholdAboveEveryParameterKeepsTheModelWhole) {
  workplace_.write("ds.json", R"({"train_batch_size": 8, "zero_optimization":
      {"stage": 3, "stage3_param_persistence_threshold": 1000000000}})");
  EXPECT_THAT(rules("ds.json --model gpt2.json --world 8", 0),
              Contains("persistence-keeps-the-model"));
}

TEST_F(Lint, WhatDeepSpeedHasRemovedIsAnError) {
  workplace_.write("ds.json", R"({"train_batch_size": 8, "zero_optimization":
      {"stage": 3, "mics_shard_size": 8}})");
  EXPECT_THAT(rules("ds.json", 1), Contains("removed-key"));
}

TEST_F(Lint, TrainingArgumentsAreReadByTheirKeys) {
  workplace_.write("args.json",
                   R"({"output_dir": "out", "fsdp": "full_shard auto_wrap", "bf16": true,
                       "fsdp_config": {"transformer_layer_cls_to_wrap": ["GPT2Blok"]}})");
  EXPECT_THAT(rules("args.json --model gpt2.json", 1), Contains("unknown-class"));
}

// Recorded (fsdp_string_hybrid_v1): the plugin's sharding_strategy is FULL_SHARD.
TEST_F(Lint, AStrategyAmongTheTrainersWordsIsOverruledInVersion1) {
  workplace_.write("args.json",
                   R"({"fsdp": "hybrid_shard auto_wrap", "fsdp_config": {"version": 1}})");
  EXPECT_THAT(rules("args.json", 0), Contains("strategy-overruled"));
  workplace_.write("args.json",
                   R"({"fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 1}})");
  EXPECT_THAT(rules("args.json", 0), Not(Contains("strategy-overruled")));
}

// A header of safetensors: 8 bytes of its length, then JSON.
TEST_F(Lint, WeightsAloneNameNoClassesToLookFor) {
  const std::string header = R"({"h.0.w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  workplace_.write("m.safetensors", length + header);
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n"
                                             "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                                             "  fsdp_transformer_layer_cls_to_wrap: GPT2Block\n"));
  EXPECT_THAT(rules("c.yaml --model m.safetensors", 0), Contains("unknown-class"));
  EXPECT_THAT(workplace_.run("model m.safetensors --accelerate c.yaml").errors,
              HasSubstr("--model: the file names no classes"));
}

TEST_F(Lint, OneRankIsAFindingOnlyWhereSomebodyGaveIt) {
  workplace_.write("ta.json", R"({"output_dir": "out", "fsdp": "full_shard auto_wrap",
                                  "fsdp_config": {"version": 1}})");
  EXPECT_THAT(rules("ta.json --model gpt2.json", 0), Not(Contains("one-rank")));
  EXPECT_THAT(rules("ta.json --model gpt2.json --world 1", 0), Contains("one-rank"));
}

TEST_F(Lint, ASecondPartitionIsToldWhereTheFileAsksForIt) {
  workplace_.write("ds.json",
                   "{\"train_micro_batch_size_per_gpu\": 1,\n \"zero_optimization\": "
                   "{\"stage\": 3,\n  \"zero_hpz_partition_size\": 2}}");
  EXPECT_THAT(workplace_.run("lint ds.json --model gpt2.json --world 4").output,
              HasSubstr("ds.json:3: warning: zero_optimization.zero_hpz_partition_size: ZeRO++"));
}

TEST_F(Lint, TheFileOfFsdpConfigAloneIsRead) {
  workplace_.write("fsdp.json", R"({"fsdp_version": 2, "min_num_params": 2000})");
  EXPECT_THAT(rules("fsdp.json", 0), Contains("min-num-params-alone"));
}

TEST_F(Lint, RanksThatAreNoWholeNodesAreOneLine) {
  workplace_.write("c.yaml", accelerate_file("  fsdp_version: 1\n"));
  const Outcome outcome =
      workplace_.run("convert c.yaml --to deepspeed --world 8 --ranks-per-node 3");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--ranks-per-node: 8 ranks are not whole nodes of 3"));
}

struct BadConfig {
  const char* name;
  const char* file;
  std::string text;
};
void PrintTo(const BadConfig& config, std::ostream* out) { *out << config.name; }

class UnreadableConfig : public ::testing::TestWithParam<BadConfig> {};

// lint has findings about them or says in one line what is wrong; model and convert only the
// latter.
TEST_P(UnreadableConfig, IsToldWithTheFile) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  workplace.write(GetParam().file, GetParam().text);
  const std::string file = GetParam().file;
  const Outcome lint = workplace.run("lint " + file);
  EXPECT_THAT(lint.code, ::testing::AnyOf(1, 2)) << lint.output << lint.errors;
  EXPECT_THAT(lint.output + lint.errors, HasSubstr(file));
  for (const std::string& verb :
       {"convert " + file + " --to deepspeed", "model model --quiet --accelerate " + file}) {
    const Outcome outcome = workplace.run(verb);
    EXPECT_EQ(outcome.code, 2) << verb << outcome.errors;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << verb << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(file));
    EXPECT_EQ(outcome.output, "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, UnreadableConfig,
    ::testing::Values(BadConfig{"BrokenYaml", "c.yaml", "fsdp_config:\n  - a\n  b: 1\n"},
                      BadConfig{"UnclosedQuote", "c.yaml", "distributed_type: 'FSDP\n"},
                      BadConfig{"BrokenJson", "c.json", "{\"zero_optimization\": {\"stage\": 3}"},
                      BadConfig{"DeepJson", "c.json", std::string(100'000, '[')},
                      BadConfig{"DeepYaml", "c.yaml", std::string(100'000, '[')},
                      BadConfig{"Empty", "c.yaml", ""},
                      BadConfig{"AListAtTop", "c.yaml", "- a\n- b\n"},
                      BadConfig{"Binary", "c.yaml",
                                std::string("\x7f"
                                            "ELF\0\1\2\xff",
                                            8)},
                      BadConfig{"AliasesThatExplode", "c.yaml",
                                "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                                "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                                "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                                "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                                "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
                                "g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"}),
    [](const auto& given) { return std::string(given.param.name); });

TEST(UnreadableConfigs, MissingFilesAndFoldersAreOneLine) {
  const Workplace workplace;
  for (const char* arguments : {"lint nowhere.yaml", "lint .", "convert nowhere --to deepspeed",
                                "lint", "convert", "lint c.yaml --format pickle"}) {
    const Outcome outcome = workplace.run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.errors), 1u) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
  }
}

}  // namespace
}  // namespace shardscope::testing
