#include "core/pytorch/plans/accelerate_fsdp2.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/model/huggingface.h"
#include "tests/core/module_rows.h"

namespace shardscope {
namespace {

using testing::tie;
using testing::tree_of_rows;

/// Modules: 0 root, 1 model, 2 embed_tokens, 3 layers, 4 and 5 the layers, 6 norm, 7 lm_head.
ModuleTree causal_model() {
  return tree_of_rows({{"", "ForCausalLM"},
                       {"model", "Base"},
                       {"model.embed_tokens", "Embedding", {{"weight", {9, 4}}}},
                       {"model.layers", "ModuleList"},
                       {"model.layers.0", "Layer", {{"weight", {4, 4}}}},
                       {"model.layers.1", "Layer", {{"weight", {4, 4}}}},
                       {"model.norm", "RMSNorm", {{"weight", {4}}}},
                       {"lm_head", "Linear", {{"weight", {9, 4}}}}});
}

TransformersFacts causal_facts() {
  return {.base_model_prefix = "model",
          .no_split_classes = {"Layer"},
          .input_embeddings = 2,
          .output_embeddings = 7};
}

AccelerateFsdp2 by_class() {
  return {.wrap = WrapPolicy::transformer, .mesh = {.replicas = 1, .shards = 2, .given = false}};
}

std::vector<std::vector<std::int32_t>> modules_of(const Fsdp2Plan& plan) {
  std::vector<std::vector<std::int32_t>> modules;
  for (const Fsdp2Group& group : plan.groups) modules.push_back(group.modules);
  return modules;
}

using Modules = std::vector<std::vector<std::int32_t>>;

TEST(AccelerateFsdp2, EmbeddingsAndTheEndAreUnitsOfTheirOwn) {
  const Fsdp2Plan plan = accelerate_fsdp2(causal_model(), causal_facts(), by_class()).fsdp2;
  // The root is sharded as well, but has nothing left.
  EXPECT_EQ(modules_of(plan), (Modules{{2}, {4}, {5}, {6, 7}}));
  EXPECT_EQ(plan.groups[0].post_forward_shards, 2);
  EXPECT_EQ(plan.groups[3].post_forward_shards, std::nullopt);
}

TEST(AccelerateFsdp2, TiedEmbeddingsJoinTheEnd) {
  ModuleTree tree = causal_model();
  tie(tree, "model.embed_tokens.weight", "lm_head.weight");
  const Fsdp2Plan plan = accelerate_fsdp2(tree, causal_facts(), by_class()).fsdp2;
  EXPECT_EQ(modules_of(plan), (Modules{{6, 2, 7}, {4}, {5}}));
  EXPECT_FALSE(plan.refused_at_first_forward.has_value());
}

TEST(AccelerateFsdp2, TieIsOverlookedOnceTheEmbeddingIsWrapped) {
  ModuleTree tree = causal_model();
  tie(tree, "model.embed_tokens.weight", "lm_head.weight");
  AccelerateFsdp2 settings = by_class();
  settings.wrap_classes = {"Embedding", "Layer"};
  const Fsdp2Plan plan = accelerate_fsdp2(tree, causal_facts(), settings).fsdp2;
  EXPECT_EQ(plan.refused_at_first_forward->exception(), "ValueError");
}

TEST(AccelerateFsdp2, EmbeddingInsideAUnitIsRefused) {
  AccelerateFsdp2 settings = by_class();
  settings.wrap_classes = {"Base"};
  try {
    accelerate_fsdp2(causal_model(), causal_facts(), settings);
    FAIL();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.exception(), "TypeError");  // "RuntimeError" with a mesh of the caller's
  }
}

TEST(AccelerateFsdp2, SizePolicyCountsNestedModulesAndWantsMore) {
  // Both layers together have 32 elements: a limit of 31 wraps the list, which has no forward.
  AccelerateFsdp2 settings = by_class();
  settings.wrap = WrapPolicy::size;
  settings.min_parameters = 31;
  EXPECT_THROW(accelerate_fsdp2(causal_model(), causal_facts(), settings), Refusal);
  // The base model has 36 + 32 + 4 = 72: not more than 72, so nothing is wrapped by size.
  settings.min_parameters = 72;
  EXPECT_EQ(modules_of(accelerate_fsdp2(causal_model(), causal_facts(), settings).fsdp2),
            (Modules{{0}, {2}, {6, 7}}));
}

TEST(AccelerateFsdp2, ClassThatTheModelLacksIsRefused) {
  AccelerateFsdp2 settings = by_class();
  settings.wrap_classes = {"Layer", "Block"};
  EXPECT_THROW(accelerate_fsdp2(causal_model(), causal_facts(), settings), Refusal);
}

TEST(AccelerateFsdp2, MixedPrecisionTrainsFloat32Masters) {
  ModuleTree tree = causal_model();
  for (TreeParameter& parameter : tree.parameters) parameter.dtype = Dtype::bfloat16;
  AccelerateFsdp2 settings = by_class();
  settings.mixed_precision = Dtype::bfloat16;
  const AccelerateFsdp2Plan plan = accelerate_fsdp2(tree, causal_facts(), settings);
  EXPECT_EQ(plan.tree.parameters[0].dtype, Dtype::float32);
  EXPECT_EQ(plan.fsdp2.groups[0].precision.reduction, Dtype::bfloat16);
}

TEST(TransformersFacts, FindsEmbeddingsWhereGpt2HasThem) {
  const Model model = model_of_config(
      JsonValue::parse(R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2})", "test"),
      {.class_name = "GPT2LMHeadModel"});
  const ModuleTree tree = tree_of(model);
  const TransformersFacts facts = transformers_facts(model, tree);
  EXPECT_EQ(tree.modules[static_cast<std::size_t>(*facts.input_embeddings)].name,
            "transformer.wte");
  EXPECT_EQ(tree.modules[static_cast<std::size_t>(*facts.output_embeddings)].name, "lm_head");
  EXPECT_EQ(facts.no_split_classes, (std::vector<std::string>{"GPT2Block"}));
}

}  // namespace
}  // namespace shardscope
