#include "core/config/trainer/training_args.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/trainer/training_args_lint.h"
#include "core/config/values/config_json.h"
#include "tests/recordings/ports/training_args_words.h"

namespace shardscope {
namespace {

std::optional<std::string> no_files(const std::string&) { return std::nullopt; }

TrainingArguments made(std::string_view json) {
  return make_training_arguments(read_json(json, "args.json"), {}, no_files);
}

std::string raised_by(std::string_view json) {
  try {
    made(json);
  } catch (const Refusal& refusal) {
    return refusal.exception();
  }
  return "nothing";
}

// Recorded from transformers 5.23 (case fsdp_string_shard_grad_op_offload).
TEST(TrainingArguments, TranslatesWordsToVersion2) {
  const TrainingArguments arguments = made("{\"fsdp\": \"shard_grad_op auto_wrap offload\"}");
  EXPECT_EQ(arguments.fsdp_plugin_args.at("fsdp_version"), ConfigValue(2));
  EXPECT_EQ(arguments.fsdp_plugin_args.at("reshard_after_forward"), ConfigValue(false));
  EXPECT_EQ(arguments.fsdp_plugin_args.at("cpu_offload"), ConfigValue(true));
  EXPECT_TRUE(arguments.fsdp_plugin_args.at("state_dict_type").is("FULL_STATE_DICT"));
}

TEST(TrainingArguments, LetsTheConfigOverruleWords) {
  const TrainingArguments arguments =
      made("{\"fsdp\": \"full_shard\", \"fsdp_config\": {\"reshard_after_forward\": false}}");
  EXPECT_EQ(arguments.fsdp_plugin_args.at("reshard_after_forward"), ConfigValue(false));
}

TEST(TrainingArguments, RefusesHybridWithoutVersion1) {
  EXPECT_EQ(raised_by("{\"fsdp\": \"hybrid_shard\"}"), "ValueError");
  EXPECT_EQ(raised_by("{\"fsdp\": \"FULL_SHARD\"}"), "ValueError");
  EXPECT_EQ(raised_by("{\"fsdp\": \"hybrid_shard\", \"fsdp_config\": {\"version\": 1}}"),
            "nothing");
  EXPECT_EQ(raised_by("{\"fsdp_min_num_params\": 5}"), "TypeError");
}

// The prefix is dropped, and the renamed key moves behind the others.
TEST(TrainingArguments, DropsThePrefix) {
  const TrainingArguments arguments =
      made("{\"fsdp\": true, \"fsdp_config\": {\"fsdp_version\": 1, \"use_orig_params\": false}}");
  EXPECT_EQ(arguments.fsdp_config.entries()[0].key, "use_orig_params");
  EXPECT_EQ(arguments.fsdp_config.entries()[1].key, "version");
}

// In version 1 reshard_after_forward stands beside a sharding_strategy that stays FULL_SHARD.
TEST(FsdpPluginArguments, KeepFullShardInVersion1) {
  const accelerate::FsdpPlugin plugin = accelerate::make_fsdp_plugin(
      made("{\"fsdp\": \"hybrid_shard\", \"fsdp_config\": {\"version\": 1}}").fsdp_plugin_args, {});
  EXPECT_EQ(plugin.sharding_strategy, "FULL_SHARD");
  EXPECT_TRUE(plugin.reshard_after_forward.is("HYBRID_SHARD"));
}

TEST(FsdpPluginArguments, OverruleTheEnvironment) {
  const ConfigValue arguments =
      ConfigValue::dict({{"fsdp_version", 2}, {"state_dict_type", "FULL_STATE_DICT"}});
  const accelerate::FsdpPlugin plugin = accelerate::make_fsdp_plugin(
      arguments, {{"FSDP_VERSION", "1"}, {"FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT"}});
  EXPECT_TRUE(plugin.is_version(2));
  EXPECT_EQ(plugin.state_dict_type, "FULL_STATE_DICT");
}

TEST(TrainingArgumentsWords, StandAloneOrWithValues) {
  const ConfigValue arguments = training_arguments_of_words(std::vector<std::string>{
      "--fsdp", "--bf16", "--per-device-train-batch-size=4", "--fsdp_config", "f.json"});
  EXPECT_EQ(arguments.at("fsdp"), ConfigValue(true));
  EXPECT_EQ(arguments.at("bf16"), ConfigValue(true));
  EXPECT_EQ(arguments.at("per_device_train_batch_size"), ConfigValue(4));
  EXPECT_TRUE(arguments.at("fsdp_config").is("f.json"));
}

bool finds(std::string_view json, std::string_view rule) {
  const std::vector<Finding> findings =
      lint_training_arguments(json, "args.json", {.model_classes = {"LlamaDecoderLayer"}});
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.rule == rule; });
}

TEST(TrainingArgumentsLint, TellsWhatIsPassedOver) {
  EXPECT_TRUE(finds("{\"fsdp\": \"full_shard\"}", "fsdp-as-words"));
  EXPECT_TRUE(finds("{\"fsdp_config\": {\"version\": 2}}", "fsdp-off"));
  EXPECT_TRUE(
      finds("{\"fsdp\": true, \"fsdp_config\": {\"offload_params\": true}}", "ignored-key"));
  EXPECT_TRUE(
      finds("{\"fsdp\": true, \"fsdp_config\": {\"min_num_params\": 5}}", "min-num-params-alone"));
  EXPECT_TRUE(
      finds("{\"fsdp\": true, \"fsdp_config\": {\"use_orig_params\": true}}", "other-version"));
  EXPECT_TRUE(
      finds("{\"fsdp\": true, \"fsdp_config\": {\"version\": 1, \"reshard_after_forward\": "
            "\"shard_grad_op\"}}",
            "strategy-overruled"));
}

TEST(TrainingArgumentsLint, TellsWhatIsRefused) {
  EXPECT_TRUE(finds("{\"fsdp_min_num_params\": 5}", "unknown-argument"));
  EXPECT_TRUE(finds("{\"fsdp\": true, \"deepspeed\": \"ds.json\"}", "fsdp-and-deepspeed"));
  EXPECT_TRUE(finds("{\"fsdp\": \"hybrid_shard\"}", "refused-value"));
  EXPECT_TRUE(
      finds("{\"fsdp\": true, \"fsdp_config\": {\"transformer_layer_cls_to_wrap\": "
            "\"LlamaLayer\"}}",
            "unknown-class"));
  EXPECT_TRUE(
      finds("{\"fsdp\": true, \"gradient_checkpointing\": true, \"fsdp_config\": "
            "{\"activation_checkpointing\": true}}",
            "checkpointing-twice"));
}

TEST(TrainingArgumentsLint, SaysNothingOfACleanFile) {
  EXPECT_TRUE(lint_training_arguments("{\"fsdp\": true, \"bf16\": true, \"fsdp_config\": "
                                      "{\"state_dict_type\": \"SHARDED_STATE_DICT\"}}",
                                      "args.json")
                  .empty());
}

}  // namespace
}  // namespace shardscope
