// Decoders beside Llama and GPT-2, and both releases of transformers. Expectations: worked out from
// the published figures and formulas beside them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/model/checkpoint_files.h"
#include "core/model/config_text.h"
#include "core/model/huggingface.h"
#include "core/model/natural_order.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/make_module.h"
#include "tests/core/complaint.h"
#include "tests/core/operator_log.h"

namespace shardscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto v4 = TransformersVersion::v4;

JsonValue parsed(std::string_view config) { return JsonValue::parse(config, "config.json"); }

Model model_of(std::string_view config, TransformersVersion version = TransformersVersion::v5) {
  return model_of_config(parsed(config), {.transformers = version});
}

Shape shape_of(const Model& model, std::string_view name) {
  const ParameterId id = model.find(name);
  return id.valid() ? model.parameters[id.value].shape : Shape{};
}

constexpr std::string_view tiny_mixtral =
    R"({"model_type": "mixtral", "vocab_size": 10, "hidden_size": 6,
    "intermediate_size": 5, "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 1,
    "num_local_experts": 2})";
constexpr std::string_view tiny_neox =
    R"({"model_type": "gpt_neox", "vocab_size": 10, "hidden_size": 12,
    "intermediate_size": 5, "num_hidden_layers": 11, "num_attention_heads": 3, "rotary_pct": 0.5})";

TEST(Mistral, SevenBillionParameters) {
  // 2 V C + L (2 C^2 + 2 K C + 3 C F + 2 C) + C with V 32000, C 4096, K 1024, F 14336, L 32
  EXPECT_EQ(model_of(R"({"model_type": "mistral"})").parameter_elements(), 7'241'732'096);
}

TEST(GptOss, HasTheParametersThatOpenAiStates) {
  // V 201,088, C 2,880, heads 64 and 8 of 64, F 2,880. Of a layer, with E experts: q and o C * 4096
  // with their biases, k and v C * 512, 64 sinks, router (C + 1) E, experts E (C 2F + 2F + F C +
  // C), norms 2 C. Around them: 2 V C + C. "116.83B" and "20.91B" parameters in the model card
  // (arXiv:2508.10925, table 1).
  EXPECT_EQ(model_of(R"({"model_type": "gpt_oss"})").parameter_elements(), 116'829'156'672);
  const Model small = model_of(
      R"({"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32,
      "quantization_config": {"quant_method": "mxfp4"}})");
  EXPECT_EQ(small.parameter_elements(), 20'914'757'184);
  EXPECT_THAT(small.assumed, ElementsAre(HasSubstr("mxfp4 weights are dequantised")));
  EXPECT_EQ(shape_of(small, "model.layers.0.self_attn.sinks"), (Shape{64}));
}

TEST(QuantizedConfig, IsTheCallersToRead) {
  const JsonValue gptq = parsed(R"({"model_type": "llama", "num_hidden_layers": 1,
      "quantization_config": {"quant_method": "gptq", "bits": 4}})");
  EXPECT_THAT(complaint_of([&] { model_of_config(gptq); }),
              HasSubstr("quantised weights of model_type llama are not simulated"));
  EXPECT_GT(model_of_config(gptq, {.quantized_base = true}).parameter_elements(), 0);
  const JsonValue other = parsed(R"({"model_type": "llama", "num_hidden_layers": 1,
      "quantization_config": {"quant_method": "hqq"}})");
  EXPECT_THAT(complaint_of([&] { model_of_config(other, {.quantized_base = true}); }),
              HasSubstr("the method hqq is not modelled"));
}

TEST(Mistral, RunsNativelyWithoutASlidingWindow) {
  EXPECT_THAT(model_of(R"({"model_type": "mistral"})").why_no_decoder,
              HasSubstr("sliding window, 4096"));
  EXPECT_TRUE(model_of(R"({"model_type": "mistral", "sliding_window": null})").decoder);
}

TEST(Mistral, HeadDimNeedNotDivideTheWidth) {
  const Model nemo =
      model_of(R"({"model_type": "mistral", "hidden_size": 30, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 10})");
  EXPECT_EQ(shape_of(nemo, "model.layers.0.self_attn.q_proj.weight"), (Shape{40, 30}));
  EXPECT_EQ(shape_of(nemo, "model.layers.0.self_attn.v_proj.weight"), (Shape{20, 30}));
}

TEST(Qwen2, HasBiasesOnQueryKeyAndValueOnly) {
  const Model model = model_of(R"({"model_type": "qwen2", "num_hidden_layers": 1})");
  EXPECT_TRUE(model.find("model.layers.0.self_attn.v_proj.bias").valid());
  EXPECT_FALSE(model.find("model.layers.0.self_attn.o_proj.bias").valid());
  EXPECT_TRUE(model.decoder);
}

TEST(Qwen2, LayersSlideFromMaxWindowLayersOn) {
  const std::string_view config = R"({"model_type": "qwen2", "num_hidden_layers": 3,
      "use_sliding_window": true, "max_window_layers": 2, "sliding_window": 7})";
  EXPECT_THAT(model_of(config).why_no_decoder, HasSubstr("sliding window, 7"));
  EXPECT_THAT(config_text(parsed(config), model_of(config)),
              HasSubstr("\"full_attention\",\n    \"full_attention\",\n    \"sliding_attention\""));
}

TEST(Qwen3, NormsQueryAndKeyOfEachHead) {
  const Model model = model_of(R"({"model_type": "qwen3", "num_hidden_layers": 1})");
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.k_norm.weight"), (Shape{128}));
  EXPECT_FALSE(model.decoder);
}

TEST(Gemma2, ScalesItsEmbeddingByABufferFromRelease5On) {
  const std::string_view config = R"({"model_type": "gemma2", "torch_dtype": "bfloat16"})";
  const ModelBuffer scale = model_of(config).buffers.at(0);
  EXPECT_EQ(scale.name, "model.embed_tokens.embed_scale");
  EXPECT_EQ(scale.dtype, Dtype::bfloat16);
  EXPECT_EQ(model_of(config, v4).buffers.at(0).name, "model.rotary_emb.inv_freq");
}

struct PublishedTotal {
  std::string_view config;
  std::int64_t parameters;
};

/// As the models' pages on the Hub count them.
class DecoderFamilies : public ::testing::TestWithParam<PublishedTotal> {};

TEST_P(DecoderFamilies, HaveThePublishedParameters) {
  EXPECT_EQ(model_of(GetParam().config).parameter_elements(), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(
    OnTheHub, DecoderFamilies,
    ::testing::Values(
        PublishedTotal{R"({"model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18,
            "num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": 16384})",
                       2'506'172'416},  // gemma-2b
        PublishedTotal{R"({"model_type": "gemma3_text", "hidden_size": 1152, "vocab_size": 262144,
            "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 6912})",
                       999'885'952},                                 // gemma-3-1b-it
        PublishedTotal{R"({"model_type": "glm4"})", 9'400'279'040},  // GLM-4-9B-0414
        PublishedTotal{R"({"model_type": "olmo2", "vocab_size": 100352})",
                       7'298'617'344},  // OLMo-2-1124-7B
        PublishedTotal{R"({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
            "intermediate_size": 10240})",
                       2'779'683'840},  // phi-2
        PublishedTotal{R"({"model_type": "granite", "hidden_size": 2048, "num_hidden_layers": 40,
            "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 49155,
            "tie_word_embeddings": true})",
                       2'533'531'648},                                 // granite-3.1-2b-base
        PublishedTotal{R"({"model_type": "ernie4_5"})", 360'748'032},  // ERNIE-4.5-0.3B
        PublishedTotal{R"({"model_type": "exaone4", "hidden_size": 2048, "intermediate_size": 4096,
            "num_hidden_layers": 30, "num_key_value_heads": 8, "tie_word_embeddings": true})",
                       1'279'391'488},                              // EXAONE-4.0-1.2B
        PublishedTotal{R"({"model_type": "glm"})", 9'399'951'360},  // glm-4-9b-chat-hf
        PublishedTotal{R"({"model_type": "lfm2", "hidden_size": 1024, "block_ff_dim": 6656,
            "num_hidden_layers": 16, "num_attention_heads": 16, "full_attn_idxs": [2, 5, 8, 10, 12, 14]})",
                       354'483'968},  // LFM2-350M
        PublishedTotal{R"({"model_type": "olmo3", "vocab_size": 100278})",
                       7'298'011'136},  // Olmo-3-7B
        PublishedTotal{R"({"model_type": "seed_oss", "hidden_size": 5120})",
                       36'151'104'512},                                       // Seed-OSS-36B
        PublishedTotal{R"({"model_type": "deepseek_v3"})", 671'026'404'352},  // DeepSeek-V3
        PublishedTotal{R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "head_dim": 128,
            "num_experts": 128})",
                       30'532'122'624},                                      // Qwen3-30B-A3B
        PublishedTotal{R"({"model_type": "smollm3"})", 3'075'098'624},       // SmolLM3-3B
        PublishedTotal{R"({"model_type": "stablelm"})", 2'795'443'200},      // stablelm-3b-4e1t
        PublishedTotal{R"({"model_type": "starcoder2"})", 3'030'371'328}));  // starcoder2-3b

TEST(Granite4, HasAttentionAloneInItsSmallModels) {
  const std::string_view small = R"({"model_type": "granitemoehybrid", "hidden_size": 1024,
      "num_hidden_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 100352,
      "num_local_experts": 0, "shared_intermediate_size": 2048, "position_embedding_type": "rope",
      "tie_word_embeddings": true, "layer_types": ["attention"]})";
  // V C + q and o 2 C^2, k and v 2 C 256, gate, up and down 3 C 2048, norms 2 C + C.
  EXPECT_EQ(model_of(small).parameter_elements(), 111'676'416);
  EXPECT_THAT(complaint_of([] { model_of(R"({"model_type": "granitemoehybrid"})"); }),
              HasSubstr("layers of a state space are not simulated"));
}

constexpr std::string_view small_afmoe =
    R"({"model_type": "afmoe", "hidden_size": 64, "vocab_size": 10,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "intermediate_size": 48, "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2})";

TEST(Afmoe, GatesAttentionAndNeverTrainsTheBiasOfItsChoice) {
  const Model model = model_of(small_afmoe);
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.gate_proj.weight"), (Shape{4 * 8, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.up_proj.weight"), (Shape{48, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.shared_experts.up_proj.weight"),
            (Shape{2 * 16, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.gate_up_proj"), (Shape{4, 2 * 16, 64}));
  const ParameterId bias = model.find("model.layers.1.mlp.expert_bias");
  ASSERT_TRUE(bias.valid());
  EXPECT_FALSE(model.parameters[bias.value].trainable);
}

TEST(Afmoe, HasAModuleForEachExpertUnderRelease4) {
  const Model model = model_of(small_afmoe, v4);
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.3.up_proj.weight"), (Shape{16, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.experts.gate_up_proj"), Shape{});
  EXPECT_EQ(model.parameter_elements(), model_of(small_afmoe).parameter_elements());
}

TEST(Llama4, HasTheParametersThatMetaStates) {
  // V 202,048, C 5,120, heads 40 and 8 of 128, F 8,192, L 48. A layer: attention 2 C^2 + 2 C *
  // 1024, norms 2 C, each expert and the shared one 3 C F, router C E; a dense one 3 C * 16384
  // instead. Around them 2 V C + C. Scout has "109B" and Maverick "400B" with the tower for images.
  EXPECT_EQ(model_of(R"({"model_type": "llama4_text"})").parameter_elements(), 107'769'861'120);
  EXPECT_EQ(model_of(R"({"model_type": "llama4_text", "num_local_experts": 128,
      "interleave_moe_layer_step": 2})")
                .parameter_elements(),
            400'711'848'960);
}

TEST(Llama4, NormsQueriesOnlyWhereTheyAreTurned) {
  const Model model = model_of(R"({"model_type": "llama4_text", "num_hidden_layers": 4,
      "hidden_size": 64, "vocab_size": 10, "num_local_experts": 2, "no_rope_layers": []})");
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(model.modules, [&](const Module& one) { return one.name == name; });
  };
  EXPECT_TRUE(has("model.layers.2.self_attn.qk_norm"));
  EXPECT_FALSE(has("model.layers.3.self_attn.qk_norm"));
  EXPECT_THAT(complaint_of([] {
                model_of(R"({"model_type": "llama4_text", "num_hidden_layers": 3,
                    "no_rope_layers": [1, 0]})");
              }),
              HasSubstr("has 2 entries, num_hidden_layers is 3"));
}

TEST(SeveralParts, AreRefusedWithTheFamilyOfTheirText) {
  EXPECT_THAT(complaint_of([] {
                model_of(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"},
                    "vision_config": {}})");
              }),
              AllOf(HasSubstr("\"gemma3\" is a text model, gemma3_text, beside towers"),
                    HasSubstr("docs/own_models.md")));
  EXPECT_THAT(complaint_of([] {
                model_of(R"({"model_type": "qwen2_5_vl", "text_config": {"model_type":
                    "qwen2_5_vl_text"}})");
              }),
              HasSubstr("examples/pytorch/export_model.py exports it"));
}

TEST(Olmo, HasSevenBillionParametersAndNormsWithoutWeights) {
  // V 50,304, C 4,096, F 11,008, L 32: 2 V C + L (4 C^2 + 3 C F)
  EXPECT_EQ(model_of(R"({"model_type": "olmo"})").parameter_elements(), 6'888'095'744);
  EXPECT_EQ(model_of(R"({"model_type": "olmo"})", v4).parameter_elements(), 6'888'095'744);
}

TEST(Olmoe, HasThePublishedParameters) {
  // V 50,304, C 2,048, F 1,024, L 16, E 64: 2 V C + C + L (4 C^2 + 2 C + 3 C F E + C E + 2 C)
  EXPECT_EQ(model_of(R"({"model_type": "olmoe", "intermediate_size": 1024})").parameter_elements(),
            6'919'161'856);
}

TEST(Qwen2Moe, HasThePublishedParameters) {
  // Qwen1.5-MoE-A2.7B: V 151,936, C 2,048, L 24, E 60 of 1,408, shared 5,632:
  // 2 V C + C + L (4 C^2 + 3 C + 3 C * 1408 E + C E + 3 C * 5632 + C + 2 C)
  EXPECT_EQ(model_of(R"({"model_type": "qwen2_moe"})").parameter_elements(), 14'315'784'192);
}

TEST(Glm4Moe, HasTheParametersOfGlm45Air) {
  // V 151,552, C 4,096, heads 96 and 8 of 128 with biases, L 46. A layer: q and o 2 C * 12288 +
  // 12288, k and v 2 (C + 1) 1024, norms 2 C; 129 experts 3 C * 1408, router C * 128, the first
  // layer 3 C * 10944 instead. Around them 2 V C + C. "106B" by its authors.
  EXPECT_EQ(model_of(R"({"model_type": "glm4_moe", "head_dim": 128, "attention_bias": true})")
                .parameter_elements(),
            106'852'245'504);
}

TEST(Dots1, HasThePublishedParameters) {
  // dots.llm1: V 152,064, C 4,096, L 62. A layer: attention 4 C^2, norms 2 C + 2 * 128; 130 experts
  // 3 C * 1408, router C * 128, the first layer 3 C * 10944 instead. Around them 2 V C + C. "142B".
  EXPECT_EQ(model_of(R"({"model_type": "dots1", "hidden_size": 4096, "n_routed_experts": 128,
      "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1})")
                .parameter_elements(),
            142'774'373'888);
}

TEST(Cohere, HasThePublishedParameters) {
  // Command R: V 256,000, C 8,192, F 22,528, L 40, tied: V C + C + L (4 C^2 + 3 C F + C)
  EXPECT_EQ(model_of(R"({"model_type": "cohere"})").parameter_elements(), 34'980'831'232);
  // Command R7B: C 4,096, F 14,336, L 32, k and v of 1,024
  const Model small =
      model_of(R"({"model_type": "cohere2", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336})");
  EXPECT_EQ(small.parameter_elements(), 8'028'033'024);
  EXPECT_EQ(shape_of(model_of(R"({"model_type": "cohere", "num_hidden_layers": 1,
      "num_key_value_heads": 8, "use_qk_norm": true})"),
                     "model.layers.0.self_attn.k_norm.weight"),
            (Shape{8, 128}));
}

TEST(Gemma4, HasWideHeadsInLayersOfFullAttention) {
  const Model model = model_of(R"({"model_type": "gemma4_text", "hidden_size": 64, "vocab_size": 10,
      "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "global_head_dim": 16, "attention_k_eq_v": true, "num_global_key_value_heads": 1,
      "hidden_size_per_layer_input": 0})");
  EXPECT_EQ(shape_of(model, "model.layers.4.self_attn.v_proj.weight"), (Shape{2 * 8, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.5.self_attn.q_proj.weight"), (Shape{4 * 16, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.5.self_attn.k_proj.weight"), (Shape{16, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.5.self_attn.v_proj.weight"), Shape{});
}

TEST(Gemma4, LayersThatReadOthersKeysHaveNoneOfTheirOwn) {
  const Model model = model_of(R"({"model_type": "gemma4_text", "hidden_size": 64, "vocab_size": 10,
      "num_hidden_layers": 12, "num_kv_shared_layers": 6, "use_double_wide_mlp": true,
      "intermediate_size": 32, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 10})");
  EXPECT_TRUE(model.find("model.layers.5.self_attn.k_proj.weight").valid());
  EXPECT_FALSE(model.find("model.layers.6.self_attn.k_proj.weight").valid());
  EXPECT_EQ(shape_of(model, "model.layers.5.mlp.up_proj.weight"), (Shape{32, 64}));
  EXPECT_EQ(shape_of(model, "model.layers.6.mlp.up_proj.weight"), (Shape{64, 64}));
  EXPECT_EQ(shape_of(model, "model.embed_tokens_per_layer.weight"), (Shape{10, 12 * 4}));
}

TEST(Gemma4, RefusesWhatItsLayersCannotHave) {
  const auto complaint = [](std::string_view keys) {
    return complaint_of([&] {
      model_of(R"({"model_type": "gemma4_text", "hidden_size": 64, "vocab_size": 100,
          "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
          "intermediate_size": 32, )" +
               std::string(keys) + "}");
    });
  };
  // Layers 0 to 4 slide, and the last one sees all.
  EXPECT_THAT(complaint(R"("num_kv_shared_layers": 1)"),
              HasSubstr("layer 5 reads keys of an earlier layer of full attention"));
  EXPECT_THAT(complaint(R"("hidden_size_per_layer_input": -4)"), HasSubstr("got -4"));
  EXPECT_THAT(complaint(R"("enable_moe_block": true, "num_experts": 4, "moe_intermediate_size": 8,
                           "top_k_experts": 9)"),
              HasSubstr("expected 1 to the 4 experts, got 9"));
  EXPECT_THAT(complaint(R"("attention_k_eq_v": true, "num_global_key_value_heads": 3)"),
              HasSubstr("4 heads do not divide over 3 key and value heads of layer 5"));
  EXPECT_THAT(complaint(R"("global_head_dim": 33)"), HasSubstr("33 elements, an odd number"));
  EXPECT_THAT(complaint(R"("per_layer_config": {"2": {"head_dim": 32}, "5": {"head_dim": 16}})"),
              HasSubstr("layer 2 has heads of 32 elements, others of its type 8"));
  EXPECT_THAT(complaint(R"("use_bidirectional_attention": "all")"), HasSubstr("both directions"));
  EXPECT_THAT(complaint(R"("rope_parameters": {"full_attention": 3})"),
              HasSubstr("full_attention"));
  EXPECT_EQ(complaint(R"("use_bidirectional_attention": "vision")"), "no complaint");
}

TEST(ShortConvolutions, RefuseWhatTransformersRefuses) {
  const auto complaint = [](std::string_view type, std::string_view keys) {
    return complaint_of([&] {
      model_of(R"({"model_type": ")" + std::string(type) + R"(", "hidden_size": 64,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, )" +
               std::string(keys) + "}");
    });
  };
  EXPECT_EQ(complaint("lfm2", R"("block_ffn_dim_multiplier": 1)"), "no complaint");
  EXPECT_THAT(complaint("lfm2", R"("block_ffn_dim_multiplier": 1e300)"), HasSubstr("more than"));
  EXPECT_THAT(complaint("lfm2", R"("layer_types": ["conv", "sliding_attention"])"),
              HasSubstr("conv and full_attention alone"));
  EXPECT_THAT(complaint("lfm2_moe", R"("num_experts": 4)"), HasSubstr("layer_types"));
}

TEST(LayerTypes, OfRotaryEmbeddingsAreKnownOnes) {
  const auto complaint = [](std::string_view keys) {
    return complaint_of([&] {
      model_of(R"({"model_type": "olmo3", "num_hidden_layers": 1, )" + std::string(keys) + "}");
    });
  };
  EXPECT_EQ(complaint(R"("layer_types": ["attention"])"), "no complaint");
  EXPECT_THAT(complaint(R"("layer_types": ["chunked_attention"])"), HasSubstr("chunked_attention"));
  EXPECT_THAT(complaint(R"("rope_parameters": {"full_attention": 3})"),
              HasSubstr("full_attention"));
  EXPECT_THAT(
      complaint_of([] { model_of(R"({"model_type": "exaone4", "sliding_window": null})"); }),
      HasSubstr("layer_types is missing"));
}

TEST(FamiliesOfRelease5, AreRefusedForRelease4) {
  EXPECT_THAT(complaint_of([] { model_of(R"({"model_type": "olmo3"})", v4); }),
              HasSubstr("it is known as transformers 5 has it"));
}

TEST(DeepseekV3, KeepsItsRouterInFloat32) {
  const Model model = model_of(R"({"model_type": "deepseek_v3", "num_hidden_layers": 4,
      "dtype": "bfloat16"})");
  const ParameterId router = model.find("model.layers.3.mlp.gate.weight");
  ASSERT_TRUE(router.valid());
  EXPECT_EQ(model.parameters[router.value].dtype, Dtype::float32);
  EXPECT_EQ(model.parameters.front().dtype, Dtype::bfloat16);
  // 64 of the 192 numbers of a head are turned, in pairs.
  EXPECT_EQ(model.buffers.back().shape, (Shape{32}));
  EXPECT_EQ(shape_of(model, "model.layers.3.self_attn.kv_b_proj.weight"),
            (Shape{128 * (128 + 128), 512}));
  EXPECT_EQ(shape_of(model, "model.layers.2.mlp.experts.gate_up_proj"), Shape{});
}

TEST(DeepseekV3, RefusesExpertsAndHeadsThatDoNotGoTogether) {
  const auto complaint = [](std::string_view keys) {
    return complaint_of(
        [&] { model_of(R"({"model_type": "deepseek_v3", )" + std::string(keys) + "}"); });
  };
  EXPECT_THAT(complaint(R"("n_group": 7)"), HasSubstr("256 experts do not divide into 7"));
  EXPECT_THAT(complaint(R"("topk_group": 9)"), HasSubstr("expected 1 to 8, got 9"));
  EXPECT_THAT(complaint(R"("n_routed_experts": 8)"), HasSubstr("a group needs two"));
  EXPECT_THAT(complaint(R"("num_key_value_heads": 64)"),
              HasSubstr("expected num_attention_heads, 128, got 64"));
  EXPECT_THAT(complaint(R"("num_experts_per_tok": 257)"), HasSubstr("got 257"));
}

TEST(SmolLM3, LeavesEveryFourthLayerUnturned) {
  const JsonValue config = parsed(R"({"model_type": "smollm3", "num_hidden_layers": 8})");
  const Model model = model_of_config(config);
  EXPECT_THAT(config_text(config, model), HasSubstr(R"("no_rope_layers": [
    1,
    1,
    1,
    0,
    1,
    1,
    1,
    0
  ])"));
  EXPECT_EQ(model.why_no_decoder, "layers without rotary embedding");
}

TEST(Gemma3, HasARotaryEmbeddingForEachTypeOfLayer) {
  // Five of six layers slide: two layers have one type, six have both.
  const auto buffers = [](std::string_view config) {
    std::vector<std::string> names;
    for (const ModelBuffer& buffer : model_of(config).buffers) names.push_back(buffer.name);
    return names;
  };
  EXPECT_THAT(
      buffers(R"({"model_type": "gemma3_text", "num_hidden_layers": 2})"),
      ElementsAre("model.embed_tokens.embed_scale", "model.rotary_emb.sliding_attention_inv_freq",
                  "model.rotary_emb.sliding_attention_original_inv_freq"));
  EXPECT_EQ(buffers(R"({"model_type": "gemma3_text", "num_hidden_layers": 6})").size(), 5U);
}

TEST(Phi, RefusesNormsOfQueryAndKey) {
  EXPECT_THAT(complaint_of([] { model_of(R"({"model_type": "phi", "qk_layernorm": true})"); }),
              HasSubstr("qk_layernorm: norms of query and key are not simulated"));
}

TEST(Phi3, PacksItsProjections) {
  // q, k, v: 32 heads of 96 each; gate and up: 2 * 8192
  const Model model = model_of(R"({"model_type": "phi3"})");
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.qkv_proj.weight"), (Shape{9216, 3072}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.gate_up_proj.weight"), (Shape{16384, 3072}));
  EXPECT_THAT(model.why_no_decoder, HasSubstr("packed projections"));
}

TEST(Phi3, LongropeNeedsAFactorForEachTurnedPair) {
  EXPECT_THAT(complaint_of([] {
                model_of(R"({"model_type": "phi3", "rope_scaling":
                    {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}})");
              }),
              HasSubstr("short_factor: has 1 numbers, 96 dimensions of a head turn by 48"));
}

TEST(Mixtral, HoldsAllExpertsInTwoTensorsFromRelease5On) {
  const Model model = model_of(tiny_mixtral);
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.experts.gate_up_proj"), (Shape{2, 10, 6}));
  const Model older = model_of(tiny_mixtral, v4);
  EXPECT_EQ(shape_of(older, "model.layers.0.block_sparse_moe.experts.1.w2.weight"), (Shape{6, 5}));
  EXPECT_EQ(model.parameter_elements(), older.parameter_elements());
}

TEST(Mixtral, FilesHoldSlicesOfThePackedExperts) {
  const Model model = model_of(tiny_mixtral);
  const auto tensors = stored_tensors(model);
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const StoredTensor& t) {
    return t.key == "model.layers.0.block_sparse_moe.experts.1.w3.weight";
  });
  ASSERT_NE(found, tensors.end());
  // Expert 1 begins at row 10 of 6 columns; its up part after 5 rows of gate: (10 + 5) * 6
  EXPECT_EQ(found->first, 90);
  EXPECT_EQ(found->shape, (Shape{5, 6}));
  EXPECT_EQ(model.parameters[found->parameter.value].name,
            "model.layers.0.mlp.experts.gate_up_proj");
}

TEST(Mixtral, AMultitudeOfExpertsIsRefused) {
  EXPECT_THAT(
      complaint_of([] {
        model_of(
            R"({"model_type": "mixtral", "num_local_experts": 4000, "num_hidden_layers": 4000})");
      }),
      HasSubstr("num_local_experts: 4000 experts in 4000 layers"));
}

TEST(GptNeox, TheHeadHasAnotherNameInFiles) {
  const Model model = model_of(tiny_neox);
  EXPECT_TRUE(model.find("lm_head.weight").valid());
  EXPECT_EQ(stored_tensors(model).back().key, "embed_out.weight");
  EXPECT_TRUE(model_of(tiny_neox, v4).find("embed_out.weight").valid());
}

TEST(GptNeox, RotaryTurnsAPartOfEachHead) {
  // heads of 4, half of them: 2 dimensions, 1 frequency
  EXPECT_EQ(model_of(tiny_neox).buffers.at(0).shape, (Shape{1}));
}

TEST(Gptj, ATiedHeadKeepsItsBias) {
  const Model model =
      model_of(R"({"model_type": "gptj", "tie_word_embeddings": true, "n_layer": 1})");
  EXPECT_EQ(model.tied.size(), 1u);
  EXPECT_EQ(shape_of(model, "lm_head.bias"), (Shape{50400}));
  const auto keys = model.state_dict_keys();
  EXPECT_THAT((std::vector<std::string>{keys.end() - 2, keys.end()}),
              ElementsAre("lm_head.weight", "lm_head.bias"));
}

TEST(Gpt2, Release4KeepsACausalMaskInEachAttention) {
  const ModelBuffer mask = model_of(R"({"model_type": "gpt2"})", v4).buffers.at(0);
  EXPECT_EQ(mask.name, "transformer.h.0.attn.bias");
  EXPECT_EQ(mask.shape, (Shape{1, 1, 1024, 1024}));
  EXPECT_EQ(mask.dtype, Dtype::boolean);
  EXPECT_TRUE(model_of(R"({"model_type": "gpt2"})").buffers.empty());
}

TEST(Gpt2, TheSecondHeadHasOneLabel) {
  const std::string_view config =
      R"({"model_type": "gpt2", "architectures": ["GPT2DoubleHeadsModel"], "num_labels": 5})";
  EXPECT_EQ(shape_of(model_of(config), "multiple_choice_head.summary.weight"), (Shape{1, 768}));
}

TEST(Llama, PadTokenMustBeARow) {
  EXPECT_THAT(complaint_of([] { model_of(R"({"model_type": "llama", "pad_token_id": 32000})"); }),
              HasSubstr("pad_token_id 32000 is outside a vocabulary of 32000"));
}

TEST(Llama, Release4TakesAWidthThatHeadsDoNotDivide) {
  const std::string_view config =
      R"({"model_type": "llama", "hidden_size": 25, "num_attention_heads": 4})";
  EXPECT_THAT(complaint_of([&] { model_of(config); }), HasSubstr("is not a multiple of"));
  EXPECT_EQ(shape_of(model_of(config, v4), "model.layers.0.self_attn.q_proj.weight"),
            (Shape{24, 25}));
}

TEST(Llama, OneLabelIsNoSingleLabelClassificationFromRelease5On) {
  const std::string_view config =
      R"({"model_type": "llama", "num_labels": 1, "problem_type": "single_label_classification"})";
  EXPECT_THAT(complaint_of([&] { model_of(config); }), HasSubstr("problem_type: "));
  EXPECT_EQ(complaint_of([&] { model_of(config, v4); }), "no complaint");
}

TEST(Llama, LabelsThatContradictTheirNumber) {
  const std::string_view config =
      R"({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"],
      "id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 4})";
  EXPECT_EQ(shape_of(model_of(config), "score.weight")[0], 4);
  EXPECT_EQ(shape_of(model_of(config, v4), "score.weight")[0], 3);
}

TEST(ConfigText, Release4LeavesRopeAndDefaultsOfEveryConfigOut) {
  const JsonValue given =
      parsed(R"({"model_type": "llama", "rope_theta": 500000.0, "is_decoder": false})");
  const JsonValue written =
      JsonValue::parse(config_text(given, model_of_config(given, {.transformers = v4})), "written");
  EXPECT_EQ(written.at("rope_theta").number(), 500000);
  EXPECT_EQ(written.at("transformers_version").string(), "4.57.6");
  for (const char* absent : {"rope_parameters", "is_decoder", "pad_token_id"})
    EXPECT_FALSE(written.has(absent)) << absent;
}

TEST(NaturalOrder, NumbersByValueAndBeforeWords) {
  EXPECT_TRUE(comes_before("layers.2.b", "layers.10.a"));
  EXPECT_TRUE(comes_before("layers.0.a", "layers.1.a"));
  EXPECT_TRUE(comes_before("shard_2", "shard_11"));
  EXPECT_TRUE(comes_before("a.0", "a.b"));
  EXPECT_TRUE(comes_before("a", "a.0"));
  EXPECT_FALSE(comes_before("a.b", "a.b"));
}

constexpr const char* small_gemma3 =
    R"({"model_type": "gemma3_text", "vocab_size": 100, "hidden_size": 96, "head_dim": 32,
    "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "sliding_window_pattern": 2})";

// As transformers 5.24 does under torch 2.15, recorded: of 16 numbers in float32, a range, its
// share, power, inverse and product for each of two types, with a copy of each; then these five
// again.
TEST(Gemma3, MakesTheFrequenciesOfEachTypeOfLayersTwice) {
  eager::OperatorLog log;  // outlives the tensors that it is told of
  eager::Session s;
  const JsonValue config = parsed(small_gemma3);
  const Model model = model_of_config(config);
  s.observe(log);
  const auto module = eager::make_module(s, model, config, eager::usual_settings(model));
  const auto lives = log.lives();
  const auto has_frequencies = [](const auto& life) { return life.bytes == 16 * 4; };
  EXPECT_EQ(std::ranges::count_if(lives, has_frequencies), 2 * (5 + 1) + 2 * 5);
  EXPECT_EQ(std::ranges::count_if(
                lives, [&](const auto& life) { return has_frequencies(life) && life.freed < 0; }),
            4);
}

// The layers slide first, but Python's set of both names has full_attention first, with
// PYTHONHASHSEED=0: angles of 1e6 and 1e4 are made in this order.
TEST(Gemma3, TurnsOfFullLayersAreMadeFirst) {
  eager::OperatorLog log;  // outlives the tensors that it is told of
  eager::Session s;
  const JsonValue config = parsed(small_gemma3);
  const Model model = model_of_config(config);
  const auto module = eager::make_module(s, model, config, eager::usual_settings(model));
  s.observe(log);
  eager::Module& rotary = module->child("model").child("rotary_emb");
  const auto full =
      fmt::format(" {} ", log.number(*rotary.buffer("full_attention_inv_freq").storage()));
  const auto sliding =
      fmt::format(" {} ", log.number(*rotary.buffer("sliding_attention_inv_freq").storage()));
  const auto ids = eager::empty(s, {1, 8}, {Dtype::int64, eager::Device::cuda});
  eager::call(s, *module, {ids, {}, {}});
  const auto first_use = [&](const std::string& number) {
    return std::ranges::find_if(log.rows(),
                                [&](const std::string& row) {
                                  return row.substr(0, row.find("->")).find(number) !=
                                         std::string::npos;
                                }) -
           log.rows().begin();
  };
  EXPECT_LT(first_use(full), first_use(sliding));
  EXPECT_LT(first_use(sliding), static_cast<std::ptrdiff_t>(log.rows().size()));
}

// By hand: embedding and head 2 * 60; q 48, k and v 24 each, o 48; two norms of a head of 4; MLP
// 3 * 48; three norms of 6.
TEST(Hunyuan, HasNormsOfEachHead) {
  const Model model = model_of(R"({"model_type": "hunyuan_v1_dense", "vocab_size": 10,
      "hidden_size": 6, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "head_dim": 4})");
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.query_layernorm.weight"), Shape{4});
  EXPECT_EQ(model.parameter_elements(), 120 + 144 + 8 + 144 + 18);
}

// transformers 5.24 multiplies by head_dim as it stands, which is null in the class.
TEST(Hunyuan, NeedsASizeOfHeads) {
  EXPECT_THAT(complaint_of([] { model_of(R"({"model_type": "hunyuan_v1_dense"})"); }),
              HasSubstr("head_dim"));
}

// MiniMax-M2 has 229 billion (its model card). A layer: q and o 2 * 3072 * 6144, k and v
// 2 * 3072 * 1024, norms of all heads 6144 + 1024, router 256 * 3072, experts
// 256 * 3 * 1536 * 3072, two norms; 62 of them, embedding, head and the last norm.
TEST(MiniMaxM2, HasTheParametersOfItsModelCard) {
  const Model model = model_of(R"({"model_type": "minimax_m2"})");
  constexpr std::int64_t layer = 37'748'736 + 6'291'456 + 7'168 + 786'432 + 3'623'878'656 + 6'144;
  EXPECT_EQ(model.parameter_elements(), 62 * layer + 2 * 614'596'608 + 3'072);
}

// The bias beside the scores is a buffer that lasts: recorded with transformers 5.24.
TEST(MiniMaxM2, ItsFilesHoldTheBiasOfTheChoice) {
  const Model model = model_of(R"({"model_type": "minimax_m2", "vocab_size": 10, "hidden_size": 6,
      "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": 2, "num_experts_per_tok": 1})");
  const CheckpointFiles files = checkpoint_files(model);
  const auto& tensors = files.files.front().header.tensors;
  const auto bias = std::ranges::find(
      tensors, "model.layers.0.block_sparse_moe.e_score_correction_bias", &SafetensorsTensor::name);
  ASSERT_NE(bias, tensors.end());
  EXPECT_EQ(bias->shape, Shape{2});
}

}  // namespace
}  // namespace shardscope
