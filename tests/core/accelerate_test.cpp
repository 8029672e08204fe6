#include "core/config/accelerate/resolve.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/refusal.h"
#include "core/config/accelerate/fsdp_plugin.h"
#include "core/config/accelerate/lint.h"
#include "core/config/accelerate/name_pattern.h"
#include "core/config/yaml/yaml_reader.h"
#include "core/native/resolved_strategy.h"
#include "tests/core/module_rows.h"
#include "tests/recordings/ports/to_fsdp2.h"

// Expected values are those of accelerate 1.15.0 and PyYAML 6.0.3, as recorded by running them.

namespace shardscope::accelerate {
namespace {

Resolution resolved(std::string text, std::vector<std::string> words = {}) {
  return resolve({.file_name = "config.yaml", .text = std::move(text), .words = std::move(words)});
}

const std::string fsdp = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n";

std::string variable_of(const std::string& text, const std::string& name) {
  return variable(resolved(text).launch.environment, name, "(not set)");
}

TEST(Accelerate, LetsTheFileBeatTheParsersDefault) {
  EXPECT_EQ(variable_of(fsdp + "  fsdp_use_orig_params: false\n", "FSDP_USE_ORIG_PARAMS"), "false");
  EXPECT_EQ(variable_of(fsdp + "  x: 1\n", "FSDP_USE_ORIG_PARAMS"), "true");
}

TEST(Accelerate, LetsTheCommandLineBeatTheFile) {
  const Resolution r =
      resolved(fsdp + "  fsdp_offload_params: false\n", {"--fsdp-offload-params", "true"});
  EXPECT_EQ(variable(r.launch.environment, "FSDP_OFFLOAD_PARAMS"), "true");
}

TEST(Accelerate, AddsThePrefixInFsdpConfigOnly) {
  EXPECT_EQ(variable_of(fsdp + "  offload_params: true\n", "FSDP_OFFLOAD_PARAMS"), "true");
  EXPECT_EQ(variable_of("distributed_type: MULTI_GPU\nnum_processes: 8\n"
                        "parallelism_config:\n  dp_shard_size: 4\n",
                        "PARALLELISM_CONFIG_DP_SHARD_SIZE"),
            "1");
}

TEST(Accelerate, TakesFullShardWhereVersion1OnlySaysReshard) {
  const Resolution r = resolved(fsdp + "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n");
  ASSERT_TRUE(r.plugin && r.plugin->value);
  EXPECT_EQ(r.plugin->value->sharding_strategy, "FULL_SHARD");
}

TEST(Accelerate, RefusesToSynchronizeWeightsWhereNoDeviceIs) {
  const auto exception_on = [](int gpus) -> std::string {
    const Resolution r =
        resolve({.file_name = "config.yaml", .text = fsdp + "  x: 1\n", .machine = {.gpus = gpus}});
    return r.plugin && r.plugin->error ? r.plugin->error->exception() : "";
  };
  EXPECT_EQ(exception_on(0), "RuntimeError");
  EXPECT_EQ(exception_on(1), "");
}

TEST(Accelerate, DoesNotCountGpusWhereThereIsAFile) {
  const Resolution r = resolved("distributed_type: FSDP\n");
  ASSERT_TRUE(r.launch.error);
  EXPECT_EQ(r.launch.error->exception(), "ValueError");
}

TEST(Accelerate, RaisesWhatPythonRaisesForAnUnquotedNo) {
  const Resolution r = resolved("distributed_type: FSDP\nnum_processes: 8\nmixed_precision: no\n");
  ASSERT_TRUE(r.launch.error);
  EXPECT_EQ(r.launch.error->exception(), "AttributeError");
}

TEST(Accelerate, MakesNullTheTextNone) {
  const Resolution r = resolved(fsdp + "  fsdp_sharding_strategy: null\n");
  ASSERT_TRUE(r.plugin && r.plugin->error);
  EXPECT_EQ(r.plugin->error->exception(), "KeyError");
}

std::vector<Finding> findings_of(const std::string& text) { return lint(resolved(text), text); }

/// "rule:line" of the first finding with that rule; empty: there is none.
std::string found(const std::string& text, const std::string& rule) {
  for (const Finding& finding : findings_of(text))
    if (finding.rule == rule) return rule + ":" + std::to_string(finding.line);
  return {};
}

TEST(AccelerateLint, NamesTheKeyThatAnIgnoredOneProbablyMeans) {
  for (const Finding& finding :
       findings_of(fsdp + "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n")) {
    if (finding.rule != "ignored-key") continue;
    EXPECT_EQ(finding.line, 4);
    EXPECT_EQ(finding.key, "fsdp_config.fsdp_backward_prefetch_policy");
    EXPECT_EQ(finding.mend, "did you mean \"fsdp_backward_prefetch\"?");
    return;
  }
  FAIL() << "nothing found";
}

TEST(AccelerateLint, FindsEachSurpriseInItsLine) {
  EXPECT_EQ(found(fsdp + "  fsdp_version: 3\n", "unknown-version"), "unknown-version:4");
  EXPECT_EQ(found(fsdp + "  fsdp_version: 2\n  fsdp_use_orig_params: true\n", "version-1-key"),
            "version-1-key:5");
  EXPECT_EQ(found(fsdp + "  fsdp_version: 2\n  fsdp_state_dict_type: LOCAL_STATE_DICT\n",
                  "local-state-dict"),
            "local-state-dict:5");
  EXPECT_EQ(found(fsdp + "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n", "reshard-ignored"),
            "reshard-ignored:4");
  EXPECT_EQ(found(fsdp + "  fsdp_sharding_strategy: HYBRID_SHARD\n", "hybrid-on-one-machine"),
            "hybrid-on-one-machine:4");
  EXPECT_EQ(found(fsdp + "  fsdp_min_num_params: 1e8\n", "number-form"), "number-form:4");
  EXPECT_EQ(found(fsdp + "  fsdp_min_num_params: 010\n", "number-form"), "number-form:4");
  EXPECT_EQ(found(fsdp + "  fsdp_transformer_layer_cls_to_wrap: [A, B]\n", "class-list"),
            "class-list:4");
  EXPECT_EQ(found(fsdp + "  fsdp_sync_module_states: false\n", "efficient-loading-without-sync"),
            "efficient-loading-without-sync:4");
  EXPECT_EQ(found(fsdp + "  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n  fsdp_min_num_params: 0\n",
                  "wraps-nothing"),
            "wraps-nothing:5");
  EXPECT_EQ(found("distributed_type: FSDP\nnum_processes: 2\nnum_processes: 4\n", "duplicate-key"),
            "duplicate-key:3");
  EXPECT_EQ(found("distributed_type: MULTI_GPU\nnum_processes: 2\nenable_cpu_affinity: true\n",
                  "ignored-flag"),
            "ignored-flag:3");
  EXPECT_EQ(
      found("distributed_type: FSDP\nnum_processes: 2\nmixed_precision: no\n", "unquoted-word"),
      "unquoted-word:3");
}

TEST(AccelerateLint, MakesAStageThatFailsAnErrorAtItsKey) {
  for (const Finding& finding : findings_of(fsdp + "  fsdp_auto_wrap_policy: 1\n")) {
    if (finding.rule != "refused") continue;
    EXPECT_EQ(finding.severity, Severity::error);
    EXPECT_EQ(finding.line, 4);
    EXPECT_EQ(finding.key, "fsdp_config.fsdp_auto_wrap_policy");
    return;
  }
  FAIL() << "nothing found";
}

TEST(AccelerateLint, FindsNoErrorInWhatTheQuestionnaireWrites) {
  const std::string text =
      "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: FSDP\n"
      "downcast_bf16: 'no'\nenable_cpu_affinity: false\nfsdp_config:\n"
      "  fsdp_activation_checkpointing: false\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n"
      "  fsdp_reshard_after_forward: true\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "  fsdp_transformer_layer_cls_to_wrap: ''\n  fsdp_version: 2\nmachine_rank: 0\n"
      "main_training_function: main\nmixed_precision: 'no'\nnum_machines: 1\nnum_processes: 8\n"
      "rdzv_backend: static\nsame_network: true\ntpu_env: []\ntpu_use_cluster: false\n"
      "tpu_use_sudo: false\nuse_cpu: false\n";
  for (const Finding& finding : findings_of(text))
    EXPECT_NE(finding.severity, Severity::error) << finding.rule << ": " << finding.message;
}

TEST(NamePattern, AnswersAsFullmatchDoes) {
  EXPECT_TRUE(NamePattern(".*mlp").matches("model.layers.0.mlp"));
  EXPECT_FALSE(NamePattern("mlp").matches("model.layers.0.mlp"));
  EXPECT_TRUE(
      NamePattern("model\\.layers\\.\\d+\\.(mlp|self_attn)").matches("model.layers.10.mlp"));
  EXPECT_FALSE(NamePattern("layers\\.[^0-2]").matches("layers.1"));
  EXPECT_TRUE(NamePattern("a{2,3}b?").matches("aaa"));
  EXPECT_FALSE(NamePattern("a{2,3}b?").matches("aaaa"));
  EXPECT_TRUE(NamePattern("a|b|").matches(""));
  EXPECT_TRUE(NamePattern("(?:ab)+$").matches("abab"));
}

TEST(NamePattern, RefusesWhatPythonRefuses) {
  for (const char* pattern : {"*a", "(a", "a)", "[a", "a**", "[z-a]", "a{3,2}"})
    EXPECT_THROW(NamePattern{pattern}, Refusal) << pattern;
}

TEST(NamePattern, TakesNoLongerForAPatternThatBacktrackingCannotFinish) {
  EXPECT_FALSE(NamePattern("(a+)+b").matches(std::string(2000, 'a')));
}

/// The policy of a plugin for a model of one module of class Layer, which has the base Base.
AutoWrap wrap_of(const Environment& environment) {
  FsdpPlugin plugin = make_fsdp_plugin(environment);
  set_auto_wrap_policy(plugin,
                       testing::tree_of_rows({{"", "Net"}, {"layer", "Layer", {}, {"Base"}}}), {});
  return auto_wrap_of(plugin);
}

TEST(FsdpPlugin, RefusesAClassThatIsNotThere) {
  const auto classes = [](const char* names) {
    return Environment{{"FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP"},
                       {"FSDP_TRANSFORMER_CLS_TO_WRAP", names}};
  };
  EXPECT_EQ(wrap_of(classes("Layer")), AutoWrap(TransformerWrap{{"Layer"}}));
  EXPECT_THROW(wrap_of(classes("Nobody")), Refusal);
  // Bases are found by isinstance, but not by accelerate's search.
  EXPECT_THROW(wrap_of(classes("Base")), Refusal);
}

TEST(FsdpPlugin, TakesNoPolicyForASizeOfZero) {
  const auto elements = [](const char* number) {
    return Environment{{"FSDP_AUTO_WRAP_POLICY", "SIZE_BASED_WRAP"},
                       {"FSDP_MIN_NUM_PARAMS", number}};
  };
  EXPECT_EQ(wrap_of(elements("0")), AutoWrap(NoWrap{}));
  EXPECT_EQ(wrap_of(elements("7")), AutoWrap(SizeWrap{.min_elements = 7}));
}

TEST(ToFsdp2, LetsTheLaterOfStrategyAndReshardWin) {
  const auto converted = [](const char* text) {
    return to_fsdp2(read_yaml(text, "x")).config.at("fsdp_config").repr();
  };
  EXPECT_EQ(converted("fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
                      "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"),
            "{'fsdp_reshard_after_forward': False, 'fsdp_version': 2}");
  EXPECT_EQ(converted("fsdp_config:\n  fsdp_sharding_strategy: full_shard\n"),
            "{'fsdp_reshard_after_forward': 'full_shard', 'fsdp_version': 2}");
}

}  // namespace
}  // namespace shardscope::accelerate
