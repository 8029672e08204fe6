// Operators that forwards of transformers' models run. Expectations: counted in its source.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "core/model/huggingface.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/session.h"
#include "tests/core/operator_log.h"

namespace shardscope {
namespace {

constexpr std::string_view small_llama = R"({"model_type": "llama", "vocab_size": 100,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4})";

/// How often a forward of 8 tokens runs operators whose name begins so.
std::ptrdiff_t operators_of(std::string_view text, std::string_view name,
                            const eager::ModelSettings& settings) {
  eager::OperatorLog log;  // outlives the tensors that it is told of
  eager::Session s;
  const JsonValue config = JsonValue::parse(text, "config.json");
  const Model model = model_of_config(config);
  const auto module = eager::make_module(s, model, config, settings);
  s.observe(log);
  const auto ids = eager::empty(s, {1, 8}, {Dtype::int64, eager::Device::cuda});
  eager::call(s, *module, {ids, {}, {}});
  const auto names = log.names();
  return std::ranges::count_if(names, [&](const std::string& n) { return n.starts_with(name); });
}

// A causal mask compares keys with queries: le.Tensor. Attention without one masks by itself.
TEST(CausalMask, IsMadeWhileAModelIsTracedFromTransformers453On) {
  EXPECT_EQ(operators_of(small_llama, "le.Tensor", {}), 0);
  EXPECT_EQ(operators_of(small_llama, "le.Tensor", {.traced = true}), 1);
  EXPECT_EQ(operators_of(small_llama, "le.Tensor", {.traced = true, .traced_without_masks = true}),
            0);
}

// Written out, its attention takes a mask of each kind; a kernel of FlashAttention takes none.
TEST(GptOss, MakesNoMaskForFlashAttention) {
  constexpr std::string_view config = R"({"model_type": "gpt_oss", "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2})";
  EXPECT_EQ(operators_of(config, "le.Tensor", {.attention = eager::AttentionImplementation::eager}),
            2);
  EXPECT_EQ(operators_of(config, "le.Tensor", {.attention = eager::AttentionImplementation::flash}),
            0);
}

TEST(Lfm2, RunsAConvolutionInEachLayerThatHasNoAttention) {
  constexpr std::string_view config = R"({"model_type": "lfm2", "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 5, "num_attention_heads": 4,
      "num_key_value_heads": 2, "full_attn_idxs": [1, 3]})";
  EXPECT_EQ(operators_of(config, "convolution.default", {}), 3);
}

// Layers of full attention, every fourth, have no rotary embedding where a window is used.
// rotate_half negates once for a query and once for a key.
TEST(Exaone4, TurnsLayersThatSlideAlone) {
  constexpr std::string_view config = R"({"model_type": "exaone4", "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "sliding_window": 4096})";
  EXPECT_EQ(operators_of(config, "neg.default", {}), 2 * 3);
}

// Queries alone are multiplied by log(1 + floor(position / length)): a floor a layer.
TEST(Ministral3, ScalesQueriesByTheirPositionInEachLayer) {
  constexpr std::string_view config = R"({"model_type": "ministral3", "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64})";
  EXPECT_EQ(operators_of(config, "floor.default", {}), 3);
}

}  // namespace
}  // namespace shardscope
