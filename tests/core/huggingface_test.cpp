#include "core/model/huggingface.h"
#include "core/model/read_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Model model_of(std::string_view config, const ModelOptions& options = {}) {
  return model_of_config(JsonValue::parse(config, "config.json"), options);
}

std::string complaint(std::string_view config) {
  return complaint_of([&] { model_of(config); });
}

constexpr std::string_view tiny_gpt2 =
    R"("model_type": "gpt2", "vocab_size": 101, "n_positions": 37, "n_embd": 24, "n_layer": 3, "n_head": 4)";
constexpr std::string_view tiny_llama =
    R"("model_type": "llama", "vocab_size": 97, "hidden_size": 24,
    "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2)";

std::string with(std::string_view config, std::string_view more) {
  return "{" + std::string(config) + (more.empty() ? "" : ", ") + std::string(more) + "}";
}

TEST(Gpt2, TheDefaultsAreThePublishedModel) {
  // V C + P C + L (12 C^2 + 13 C) + 2 C with V 50257, P 1024, C 768, L 12
  EXPECT_EQ(model_of(R"({"model_type": "gpt2"})").parameter_elements(), 124'439'808);
}

TEST(Llama, Llama3Of8BillionParameters) {
  // 2 V C + L (2 C^2 + 2 K C + 3 C F + 2 C) + C with V 128256, C 4096, K 8*128, F 14336, L 32
  EXPECT_EQ(model_of(R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
                         "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                         "num_key_value_heads": 8})")
                .parameter_elements(),
            8'030'261'248);
}

// The longest input that the models of transformers 5.24 take on the CPU without an IndexError.
TEST(Positions, AreThoseThatAModelHasATableFor) {
  constexpr std::string_view encoder = R"("vocab_size": 60, "hidden_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16)";
  const auto positions = [](std::string_view type, std::string_view sizes, std::string_view more) {
    return model_of(fmt::format(R"({{"model_type": "{}", {}, {}}})", type, sizes, more)).positions;
  };
  EXPECT_EQ(positions("bert", encoder, R"("max_position_embeddings": 128)"), 128);
  EXPECT_EQ(positions("roberta", encoder, R"("max_position_embeddings": 130)"), 128);
  EXPECT_EQ(positions("roberta", encoder, R"("max_position_embeddings": 130, "pad_token_id": 0)"),
            129);
  EXPECT_EQ(positions("opt", R"("vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1,
                "num_attention_heads": 2, "ffn_dim": 16, "word_embed_proj_dim": 16)",
                      R"("max_position_embeddings": 128)"),
            128);
  constexpr std::string_view gpt = R"("vocab_size": 60, "n_embd": 16, "n_layer": 1, "n_head": 2)";
  EXPECT_EQ(positions("gptj", gpt, R"("n_positions": 128, "rotary_dim": 4)"), 128);
  EXPECT_EQ(positions("gpt2", gpt, R"("n_positions": 128)"), 128);
  EXPECT_EQ(positions("phi", encoder, R"("max_position_embeddings": 128)"), 0);
}

TEST(Gpt2, WeightsAreStoredInputFirst) {
  const Model model = model_of(with(tiny_gpt2, ""));
  const ParameterId qkv = model.find("transformer.h.0.attn.c_attn.weight");
  ASSERT_TRUE(qkv.valid());
  EXPECT_EQ(model.parameters[qkv.value].shape, (Shape{24, 72}));
  ASSERT_TRUE(model.decoder);
  EXPECT_EQ(model.decoder->blocks[0].qkv.at(0).weight, qkv);
  EXPECT_EQ(model.decoder->blocks[0].qkv.at(0).layout, WeightLayout::in_out);
}

TEST(Llama, WeightsAreStoredOutputFirstAndKeysAreFewer) {
  const Model model = model_of(with(tiny_llama, ""));
  ASSERT_TRUE(model.decoder);
  const Linear& key = model.decoder->blocks[1].qkv.at(1);
  EXPECT_EQ(model.parameters[key.weight.value].name, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(model.parameters[key.weight.value].shape, (Shape{8, 24}));  // 2 heads of 4
  EXPECT_EQ(key.layout, WeightLayout::out_in);
  EXPECT_FALSE(key.bias.valid());
  EXPECT_EQ(model.decoder->head_dim, 4);
  EXPECT_DOUBLE_EQ(model.decoder->attention_scale, 0.5);  // 1 / sqrt(4)
}

TEST(Gpt2, TheHeadIsTiedUnlessTheConfigSaysOtherwise) {
  const Model tied = model_of(with(tiny_gpt2, ""));
  EXPECT_EQ(tied.tied, (std::vector<TiedName>{{"lm_head.weight", "transformer.wte.weight"}}));
  EXPECT_EQ(tied.find("lm_head.weight"), tied.decoder->token_embedding);
  EXPECT_EQ(tied.decoder->head.weight, tied.decoder->token_embedding);
  const Model untied = model_of(with(tiny_gpt2, R"("tie_word_embeddings": false)"));
  EXPECT_TRUE(untied.tied.empty());
  EXPECT_EQ(untied.parameters.back().name, "lm_head.weight");
}

TEST(Gpt2, ResidualProjectionsAreDrawnNarrower) {
  const Model model = model_of(with(tiny_gpt2, R"("initializer_range": 0.06)"));
  const auto deviation = [&](std::string_view name) {
    return model.parameters[model.find(name).value].initialization.standard_deviation;
  };
  EXPECT_DOUBLE_EQ(deviation("transformer.h.2.mlp.c_proj.weight"),
                   0.06 / std::sqrt(6.0));  // 2 * 3 layers
  EXPECT_DOUBLE_EQ(deviation("transformer.h.0.attn.c_proj.weight"), 0.06 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviation("transformer.h.2.mlp.c_fc.weight"), 0.06);
  EXPECT_DOUBLE_EQ(deviation("transformer.wpe.weight"), 0.06);
  EXPECT_EQ(model.parameters[model.find("transformer.ln_f.weight").value].initialization.kind,
            Initialization::Kind::ones);
  EXPECT_EQ(model.parameters[model.find("transformer.ln_f.bias").value].initialization.kind,
            Initialization::Kind::zeros);
}

TEST(Gpt2, AttentionScalesFollowTheConfig) {
  EXPECT_DOUBLE_EQ(model_of(with(tiny_gpt2, "")).decoder->attention_scale, 1 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(
      model_of(with(tiny_gpt2, R"("scale_attn_weights": false)")).decoder->attention_scale, 1);
  const auto by_layer = model_of(with(tiny_gpt2, R"("scale_attn_by_inverse_layer_idx": true)"))
                            .decoder->attention_scale_by_layer;
  ASSERT_EQ(by_layer.size(), 3u);
  EXPECT_DOUBLE_EQ(by_layer[2], 1 / std::sqrt(6.0) / 3);
}

TEST(Gpt2, WhatTheNativeRuntimeLacksIsSaid) {
  const auto reason = [](std::string_view more) {
    return model_of(with(tiny_gpt2, more)).why_no_decoder;
  };
  EXPECT_THAT(reason(R"("activation_function": "relu")"), HasSubstr("activation_function relu"));
  EXPECT_THAT(reason(R"("add_cross_attention": true)"), HasSubstr("add_cross_attention"));
  EXPECT_THAT(reason(R"("architectures": ["GPT2ForSequenceClassification"])"),
              HasSubstr("no head"));
  EXPECT_EQ(reason(R"("activation_function": "gelu_pytorch_tanh")"), "");
}

TEST(Llama, RopeInBothSpellings) {
  const auto rope = [](std::string_view more) {
    return model_of(with(tiny_llama, more)).decoder->rope.value();
  };
  EXPECT_EQ(rope("").theta, 10000);
  EXPECT_EQ(rope(R"("rope_theta": 500000.0)").theta, 500000);
  EXPECT_EQ(
      rope(
          R"("rope_parameters": {"rope_type": "default", "rope_theta": 3000.0}, "rope_theta": 1.5)")
          .theta,
      3000);
  EXPECT_EQ(rope(R"("rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 2000.0)"),
            (Rope{.theta = 2000, .linear_factor = 4}));
  EXPECT_EQ(rope(R"("rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"),
            (Rope{.theta = 10000, .llama3 = Rope::Llama3{32, 1, 4, 8192}}));
  EXPECT_THAT(model_of(with(tiny_llama, R"("rope_scaling": {"rope_type": "yarn", "factor": 2.0})"))
                  .why_no_decoder,
              HasSubstr("rope_type yarn"));
}

TEST(Huggingface, TheDtypeIsTheConfigsOrTheOne) {
  const std::string config = with(tiny_llama, R"("torch_dtype": "bfloat16")");
  EXPECT_EQ(model_of(config).parameters[0].dtype, Dtype::bfloat16);
  EXPECT_EQ(model_of(config).buffers.at(0).dtype, Dtype::float32);
  EXPECT_EQ(model_of(config, {.dtype = Dtype::float32}).parameters[0].dtype, Dtype::float32);
}

TEST(Huggingface, ComplaintsNameFileLineAndKey) {
  EXPECT_THAT(complaint("{\n\"model_type\": \"mamba\"}"),
              StartsWith("config.json:2: model_type: unknown model_type \"mamba\"; known are "));
  EXPECT_THAT(complaint("{}"), HasSubstr("config.json:1: the key \"model_type\" is missing"));
  EXPECT_THAT(complaint(with(tiny_gpt2, R"("architectures": ["GPT2Foo"])")),
              HasSubstr("architectures[0]: unknown architecture \"GPT2Foo\" of model_type gpt2; "
                        "known are GPT2LMHeadModel"));
  EXPECT_EQ(complaint("{\"model_type\": \"gpt2\",\n\"n_embd\": 25, \"n_head\": 4}"),
            "config.json:2: n_embd: n_embd 25 is not a multiple of n_head 4");
  EXPECT_THAT(
      complaint(
          R"({"model_type": "llama", "num_attention_heads": 6, "hidden_size": 24, "num_key_value_heads": 4})"),
      HasSubstr(
          "num_key_value_heads: num_attention_heads 6 is not a multiple of num_key_value_heads 4"));
  EXPECT_THAT(complaint(R"({"model_type": "gpt2", "n_layer": "12"})"),
              HasSubstr("n_layer: expected an integer"));
  EXPECT_THAT(complaint(R"({"model_type": "gpt2", "n_layer": -1})"),
              HasSubstr("n_layer: expected an integer from 1"));
  EXPECT_THAT(complaint(R"({"model_type": "gpt2", "n_layer": 1000000000})"),
              HasSubstr("from 1 to 4096"));
  EXPECT_THAT(complaint(R"({"model_type": "gpt2", "activation_function": "gelo"})"),
              HasSubstr("unknown activation"));
  EXPECT_THAT(complaint(R"({"model_type": "llama", "torch_dtype": "float31"})"),
              HasSubstr("torch_dtype"));
  EXPECT_THAT(
      complaint(R"({"model_type": "llama", "hidden_size": 67108864, "num_hidden_layers": 4000})"),
      HasSubstr("parameters"));
}

TEST(Huggingface, ReadsAFolderOrAFile) {
  const TemporaryFolder folder;
  const auto path = folder.write("config.json", with(tiny_gpt2, ""));
  EXPECT_EQ(read_model(folder.path()).parameters, read_model(path).parameters);
  const TemporaryFolder empty;
  EXPECT_THAT(complaint_of([&] { read_model(empty.path()); }),
              HasSubstr("config.json: cannot be read"));
}

}  // namespace
}  // namespace shardscope
