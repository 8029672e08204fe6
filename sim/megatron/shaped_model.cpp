#include "sim/megatron/shaped_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/model/huggingface.h"

namespace shardscope {
namespace {

std::string gpt2_config(const DecoderShape& shape, double dropout, bool tied) {
  return fmt::format(
      R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu",
"n_embd": {}, "n_layer": {}, "n_head": {}, "n_inner": {}, "vocab_size": {}, "n_positions": {},
"attn_pdrop": {}, "embd_pdrop": {}, "resid_pdrop": {}, "tie_word_embeddings": {}}})",
      shape.hidden, shape.layers, shape.heads, shape.ffn, shape.vocabulary, shape.seq, dropout,
      dropout, dropout, tied);
}

/// What a family with gated layers is called, and the keys that it has beyond Llama's.
struct GatedFamily {
  std::string_view name;
  std::string keys;
};

GatedFamily gated_family(const DecoderShape& shape) {
  const std::string_view family = shape.family;
  const ExpertShape& experts = shape.experts;
  if (family == "qwen2") return {"Qwen2", fmt::format(R"("head_dim": {}, )", shape.head_size)};
  if (family == "mixtral")
    return {"Mixtral", fmt::format(R"("head_dim": {}, "num_local_experts": {},
"num_experts_per_tok": {}, )",
                                   shape.head_size, experts.experts, experts.chosen)};
  if (family == "qwen3_moe")
    return {"Qwen3Moe",
            fmt::format(R"("head_dim": {}, "num_experts": {}, "num_experts_per_tok": {},
"moe_intermediate_size": {}, "norm_topk_prob": true, )",
                        shape.head_size, experts.experts, experts.chosen, experts.inner)};
  if (family == "deepseek_v3") {
    const LatentShape& latents = shape.latents;
    const std::string queries =
        latents.query_rank > 0 ? fmt::format("{}", latents.query_rank) : std::string("null");
    return {"DeepseekV3", fmt::format(R"("n_routed_experts": {}, "num_experts_per_tok": {},
"moe_intermediate_size": {}, "n_shared_experts": {}, "first_k_dense_replace": {}, "n_group": 1,
"topk_group": 1, "q_lora_rank": {}, "kv_lora_rank": {}, "qk_nope_head_dim": {},
"qk_rope_head_dim": {}, "v_head_dim": {}, )",
                                      experts.experts, experts.chosen, experts.inner,
                                      experts.shared, experts.dense_layers, queries, latents.rank,
                                      latents.plain, latents.rotary, latents.value)};
  }
  return {"Llama", fmt::format(R"("head_dim": {}, )", shape.head_size)};
}

std::string gated_config(const DecoderShape& shape, bool tied) {
  const std::string_view family = shape.family;
  const GatedFamily known = gated_family(shape);
  const std::int64_t inner = family == "mixtral" ? shape.experts.inner : shape.ffn;
  return fmt::format(
      R"({{"model_type": "{}", "architectures": ["{}ForCausalLM"], "hidden_size": {},
"num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, {}
"intermediate_size": {}, "vocab_size": {}, "max_position_embeddings": {},
"tie_word_embeddings": {}}})",
      family, known.name, shape.hidden, shape.layers, shape.heads, shape.kv_heads, known.keys,
      inner, shape.vocabulary, shape.seq, tied);
}

/// GPT-2's attention has no size of heads of its own: its products are cut, in [in, out] order.
void cut_attention(Model& model, std::int64_t ranks) {
  for (Parameter& parameter : model.parameters) {
    if (parameter.name.ends_with("attn.c_attn.weight")) parameter.shape[1] /= ranks;
    if (parameter.name.ends_with("attn.c_attn.bias")) parameter.shape[0] /= ranks;
    if (parameter.name.ends_with("attn.c_proj.weight")) parameter.shape[0] /= ranks;
  }
}

}  // namespace

ShapedModel model_of_shape(const DecoderShape& shape, double dropout, bool tied) {
  const std::string text =
      shape.family == "gpt2" ? gpt2_config(shape, dropout, tied) : gated_config(shape, tied);
  JsonValue config = JsonValue::parse(text, "shape");
  Model model = model_of_config(config);
  return {.model = std::move(model), .config = std::move(config)};
}

DecoderShape with_layers(DecoderShape shape, std::int64_t layers) {
  if (layers < shape.layers) shape.experts.dense_layers = 0;
  shape.layers = layers;
  return shape;
}

ShapedModel tensor_part(DecoderShape shape, std::int64_t ranks, double dropout, bool tied) {
  const bool by_cut = shape.family == "gpt2";
  shape.ffn /= ranks;
  shape.vocabulary = (shape.vocabulary + ranks - 1) / ranks;
  if (!by_cut) {
    shape.heads /= ranks;
    shape.kv_heads /= ranks;
  }
  ShapedModel part = model_of_shape(shape, dropout, tied);
  if (by_cut) cut_attention(part.model, ranks);
  return part;
}

ShapedModel expert_part(DecoderShape shape, std::int64_t ranks, double dropout, bool tied) {
  shape.experts.experts = std::max(shape.experts.experts / ranks, shape.experts.chosen);
  return model_of_shape(shape, dropout, tied);
}

bool is_tied(const ShapedModel& model) { return model.config.at("tie_word_embeddings").boolean(); }

}  // namespace shardscope
