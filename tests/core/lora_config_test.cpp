// Which modules PEFT adapts, and what its files and --peft say. Expectations: peft 0.21.2,
// check_target_module_exists, get_pattern_key and _set_trainable, by hand.
#include "core/model/lora_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/lora_conversion.h"
#include "core/model/read_lora_config.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

LoraConfig of_json(const char* text) {
  return read_lora_config(JsonValue::parse(text, "adapter_config.json"), "llama");
}

bool adapts(const LoraConfig& config, std::string_view name) {
  return LoraTargets(config).has({.name = name, .is_linear = true});
}

TEST(LoraTargets, NamesAreWholePartsAtTheEnd) {
  const LoraConfig config = of_json(R"({"target_modules": ["q_proj"]})");
  EXPECT_TRUE(adapts(config, "model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(adapts(config, "model.layers.0.self_attn.my_q_proj"));
  EXPECT_FALSE(adapts(config, "model.layers.0.self_attn.q_proj.weight"));
}

TEST(LoraTargets, AStringIsAPatternOfTheWholeName) {
  const LoraConfig config = of_json(R"({"target_modules": ".*\\.(q|v)_proj"})");
  EXPECT_TRUE(adapts(config, "model.layers.0.self_attn.v_proj"));
  EXPECT_FALSE(adapts(config, "model.layers.0.self_attn.v_proj.extra"));
}

TEST(LoraTargets, AllLinearLeavesOutTheOutputEmbedding) {
  const LoraConfig config = of_json(R"({"target_modules": "all-linear"})");
  const LoraTargets targets(config);
  EXPECT_TRUE(targets.has({.name = "model.layers.0.mlp.up_proj", .is_linear = true}));
  EXPECT_FALSE(targets.has({.name = "lm_head", .is_linear = true, .is_output_embedding = true}));
  EXPECT_FALSE(targets.has({.name = "model.norm"}));
}

TEST(LoraTargets, ModulesThatAreSavedWholeAreNotAdapted) {
  const LoraConfig config =
      of_json(R"({"target_modules": ["q_proj", "lm_head"], "modules_to_save": ["lm_head"]})");
  EXPECT_FALSE(adapts(config, "lm_head"));
  EXPECT_TRUE(is_saved_whole(config, "lm_head"));
}

TEST(LoraTargets, LayersAreCountedByTheFirstNumber) {
  const LoraConfig config = of_json(R"({"target_modules": ["w1"], "layers_to_transform": [1]})");
  EXPECT_TRUE(adapts(config, "model.layers.1.experts.0.w1"));
  EXPECT_FALSE(adapts(config, "model.layers.0.experts.1.w1"));
}

TEST(LoraTargets, ARankPatternIsTheEndOfAName) {
  const LoraConfig config = of_json(
      R"({"r": 8, "target_modules": ["q_proj", "v_proj"], "rank_pattern": {"v_proj": 32}})");
  const LoraTargets targets(config);
  EXPECT_EQ(targets.rank_of("model.layers.0.self_attn.v_proj"), 32);
  EXPECT_EQ(targets.rank_of("model.layers.0.self_attn.q_proj"), 8);
}

// What AdaLoRA saves: a list of ranks that are left for each module.
TEST(ReadLoraConfig, TakesTheFirstRankOfAnAdaLoraThatWasSaved) {
  const LoraConfig lora = of_json(
      R"({"peft_type": "ADALORA", "init_r": 12, "r": 8, "target_r": 8, "total_step": 40,
"target_modules": ["q_proj"],
"rank_pattern": {"model.layers.0.self_attn.q_proj.lora_E": [true, false]}})");
  EXPECT_TRUE(lora.adaptive_rank);
  EXPECT_EQ(lora.rank, 12);
  EXPECT_TRUE(lora.rank_pattern.empty());
}

/// tests/data/adalora/configs.json: files that peft 0.21.2 was given, and the layers that it put
/// into a small model, or its refusal.
JsonValue recorded_adalora() {
  return JsonValue::read_file(SOURCE_ROOT "/tests/data/adalora/configs.json");
}

TEST(ReadLoraConfig, RefusesTheAdaLoraThatPeftRefuses) {
  int refused = 0, taken = 0;
  for (const JsonValue& one : recorded_adalora().at("cases").elements()) {
    // An embedding is a matter of the model, not of its file.
    if (one.has("error") && one.at("error").string().find("Target module") != std::string::npos)
      continue;
    const std::string type = one.at("model_type").string();
    const auto read = [&] { read_lora_config(one.at("config"), type); };
    if (one.has("error"))
      EXPECT_THROW(read(), Error) << one.at("error").string();
    else
      EXPECT_NO_THROW(read()) << type;
    ++(one.has("error") ? refused : taken);
  }
  EXPECT_EQ(refused, 9);
  EXPECT_EQ(taken, 15);
}

TEST(ReadLoraConfig, AdaptsTheLayersThatPeftsAdaLoraAdapts) {
  std::size_t layers = 0;
  for (const JsonValue& one : recorded_adalora().at("cases").elements()) {
    if (!one.has("ranks")) continue;
    const std::string type = one.at("model_type").string();
    const LoraConfig config = read_lora_config(one.at("config"), type);
    if (config.all_linear) continue;
    const LoraTargets targets(config);
    layers += one.at("ranks").members().size();
    for (const auto& [name, rank] : one.at("ranks").members()) {
      EXPECT_TRUE(targets.has({.name = name, .is_linear = true})) << type << " " << name;
      EXPECT_EQ(targets.rank_of(name), rank.integer()) << type << " " << name;
    }
    EXPECT_FALSE(targets.has({.name = "model.layers.0.mlp.gate_proj", .is_linear = true})) << type;
  }
  EXPECT_GE(layers, 15U);
}

TEST(ReadLoraConfig, TakesTheFamilysTargetsWhereNoneAreGiven) {
  EXPECT_EQ(of_json(R"({"r": 4})").targets.names, (std::vector<std::string>{"q_proj", "v_proj"}));
}

TEST(ReadLoraConfig, NamesTheKeyOfWhatIsNotModelled) {
  EXPECT_THAT(complaint_of([] { of_json("{\n\"peft_type\": \"IA3\"}"); }),
              testing::HasSubstr("adapter_config.json:2: peft_type"));
  EXPECT_THAT(complaint_of([] { of_json(R"({"layer_replication": [[0, 4], [2, 5]]})"); }),
              testing::HasSubstr("layer_replication"));
}

// What LoraConfig and AdaLoraConfig of peft 0.21.2 took and refused.
TEST(ReadLoraConfig, TakesAPatternOfLayersAsPeftDoes) {
  EXPECT_NO_THROW(of_json(R"({"layers_pattern": []})"));
  EXPECT_NO_THROW(of_json(R"({"layers_pattern": ""})"));
  EXPECT_THAT(complaint_of([] { of_json(R"({"layers_pattern": "h"})"); }),
              testing::HasSubstr("without layers_to_transform"));
  EXPECT_THAT(complaint_of([] { of_json(R"({"target_modules": ".*q", "layers_pattern": []})"); }),
              testing::HasSubstr("cannot be used when target_modules is a string"));
}

TEST(ParseLoraConfig, ReadsTheOption) {
  const LoraConfig config = parse_lora_config(
      "r=64,alpha=16,dropout=0.1,targets=q_proj+k_proj,save=lm_head,dora", "--peft", "llama");
  EXPECT_EQ(config.rank, 64);
  EXPECT_EQ(config.dropout, 0.1);
  EXPECT_EQ(config.targets.names, (std::vector<std::string>{"q_proj", "k_proj"}));
  EXPECT_EQ(config.modules_to_save, std::vector<std::string>{"lm_head"});
  EXPECT_TRUE(config.dora);
}

TEST(ParseLoraConfig, SaysWhatIsWrong) {
  const auto said = [](const char* text) {
    return complaint_of([&] { parse_lora_config(text, "--peft", "llama"); });
  };
  EXPECT_THAT(said("r=0"), testing::HasSubstr("r=0 is no number from 1"));
  EXPECT_THAT(said("rnak=8"), testing::HasSubstr("\"rnak\" is no setting of an adapter"));
  EXPECT_THAT(said("r=8.5"), testing::HasSubstr("not a whole number"));
}

// Qwen3's mixture as transformers 5 has it: one layer of experts, and one without.
AdaptedNames mixture(std::string_view family = "qwen3_moe") {
  return {.family = family,
          .modules = {{.name = "model.layers.0.self_attn.q_proj", .is_linear = true},
                      {.name = "model.layers.0.mlp"},
                      {.name = "model.layers.0.mlp.gate"},
                      {.name = "model.layers.0.mlp.experts"},
                      {.name = "lm_head", .is_linear = true, .is_output_embedding = true}},
          .parameters = {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.gate.weight",
                         "model.layers.0.mlp.experts.gate_up_proj",
                         "model.layers.0.mlp.experts.down_proj", "lm_head.weight"}};
}

using Names = std::vector<std::string>;

TEST(LoraConversion, AllLinearMeansExpertsAndRouterToo) {
  const LoraConfig config = converted_for_transformers_5(
      of_json(R"({"target_modules": "all-linear", "r": 8, "lora_alpha": 16})"), mixture());
  EXPECT_EQ(config.targets.names, Names{"q_proj"});
  EXPECT_EQ(config.target_parameters, (Names{"down_proj", "gate.weight", "gate_up_proj"}));
  const LoraTargets targets(config);
  // Gate and up are one parameter of twice the rank, and the scaling is that of one.
  EXPECT_EQ(targets.rank_of("model.layers.0.mlp.experts.gate_up_proj"), 16);
  EXPECT_EQ(targets.scaling_of("model.layers.0.mlp.experts.gate_up_proj"), 2);
  EXPECT_EQ(targets.rank_of("model.layers.0.mlp.experts.down_proj"), 8);
}

TEST(LoraConversion, AToolsOwnListHasOnlyTheLinearLayersThatAreThere) {
  LoraConfig config = of_json(R"({"target_modules": "all-linear"})");
  config.lists_linear = true;
  config = converted_for_transformers_5(config, mixture());
  EXPECT_EQ(config.targets.names, Names{"q_proj"});
  EXPECT_TRUE(config.target_parameters.empty());
}

TEST(LoraConversion, OneHalfOfAFusedParameterIsRefused) {
  EXPECT_THAT(complaint_of([] {
                converted_for_transformers_5(of_json(R"({"target_modules": ["gate_proj"]})"),
                                             mixture());
              }),
              ::testing::HasSubstr("names gate_proj without up_proj"));
}

TEST(LoraConversion, APatternIsAskedForProjectionsThatWereThere) {
  const LoraConfig config = converted_for_transformers_5(
      of_json(R"json({"target_modules": ".*experts\\.(gate_proj|up_proj)"})json"), mixture());
  EXPECT_TRUE(config.targets.names.empty());
  EXPECT_EQ(config.target_parameters, Names{"gate_up_proj"});
}

// PEFT 0.21.2 raises NoMatchingPeftModuleError for a LoraConfig of Mixtral without target_modules.
TEST(LoraConversion, MixtralHasNoUsualTargetsAnyMore) {
  const auto config = read_lora_config(JsonValue::parse("{}", "adapter_config.json"), "mixtral");
  EXPECT_TRUE(converted_for_transformers_5(config, mixture("mixtral")).targets.names.empty());
}

TEST(LoraConversion, OtherFamiliesKeepTheirTargets) {
  const LoraConfig config = of_json(R"({"target_modules": ["gate_proj"]})");
  EXPECT_EQ(converted_for_transformers_5(config, mixture("qwen2_moe")), config);
}

}  // namespace
}  // namespace shardscope
