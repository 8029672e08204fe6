#include "core/config/megatron/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace shardscope::megatron {
namespace {

/// How a family is played.
struct KnownFamily {
  std::string_view model_type, played_as;
};
constexpr std::array<KnownFamily, 8> families{{{"llama", "llama"},
                                               {"mistral", "llama"},
                                               {"qwen3", "llama"},
                                               {"qwen2", "qwen2"},
                                               {"gpt2", "gpt2"},
                                               {"mixtral", "mixtral"},
                                               {"qwen3_moe", "qwen3_moe"},
                                               {"deepseek_v3", "deepseek_v3"}}};

std::string_view played_as(const std::string& type) {
  for (const KnownFamily& known : families)
    if (known.model_type == type) return known.played_as;
  throw Error({.where = "--model",
               .what = fmt::format("a {} is not predicted under Megatron-LM", type),
               .way_out = "give a llama, mistral, qwen2, qwen3, gpt2, mixtral, qwen3_moe or "
                          "deepseek_v3, or its shape as a Megatron-LM command line in --config"});
}

std::int64_t count(const JsonValue& config, std::string_view key, std::int64_t otherwise) {
  const auto value = config.find(key);
  return value && !value->is_null() ? value->integer() : otherwise;
}

bool truth(const JsonValue& config, std::string_view key, bool otherwise) {
  const auto value = config.find(key);
  return value && !value->is_null() ? value->boolean() : otherwise;
}

void take_gpt2(const JsonValue& config, Settings& settings) {
  DecoderShape& shape = settings.shape;
  shape.hidden = count(config, "n_embd", 768);
  shape.layers = count(config, "n_layer", 12);
  shape.heads = shape.kv_heads = count(config, "n_head", 12);
  shape.ffn = count(config, "n_inner", 4 * shape.hidden);
  shape.vocabulary = count(config, "vocab_size", 50257);
  settings.gated = false;
  settings.positions = Positions::learned;
  settings.max_positions = std::max(shape.seq, count(config, "n_positions", 1024));
  settings.biases = settings.layer_norm = true;
}

void take_experts(const JsonValue& config, DecoderShape& shape) {
  ExpertShape& experts = shape.experts;
  if (shape.family == "mixtral")
    experts = {.experts = count(config, "num_local_experts", 8),
               .chosen = count(config, "num_experts_per_tok", 2),
               .inner = shape.ffn};
  if (shape.family == "qwen3_moe")
    experts = {.experts = count(config, "num_experts", 128),
               .chosen = count(config, "num_experts_per_tok", 8),
               .inner = count(config, "moe_intermediate_size", 768)};
  if (shape.family != "deepseek_v3") return;
  experts = {.experts = count(config, "n_routed_experts", 256),
             .chosen = count(config, "num_experts_per_tok", 8),
             .inner = count(config, "moe_intermediate_size", 2048),
             .shared = count(config, "n_shared_experts", 1),
             .dense_layers = count(config, "first_k_dense_replace", 3)};
  shape.latents = {.query_rank = count(config, "q_lora_rank", 0),
                   .rank = count(config, "kv_lora_rank", 512),
                   .plain = count(config, "qk_nope_head_dim", 128),
                   .rotary = count(config, "qk_rope_head_dim", 64),
                   .value = count(config, "v_head_dim", 128)};
}

/// transformers 5 has it in "rope_parameters". Of a whole number, as Megatron-LM takes it.
std::int64_t rotary_base(const JsonValue& config) {
  constexpr double usual = 10000, most = 1e15;
  auto value = config.find("rope_theta");
  if (const auto rope = config.find("rope_parameters"); !value && rope && rope->is_object())
    value = rope->find("rope_theta");
  const double base = value && !value->is_null() ? value->number() : usual;
  return static_cast<std::int64_t>(base >= 1 && base <= most ? base : usual);
}

void take_gated(const JsonValue& config, Settings& settings) {
  DecoderShape& shape = settings.shape;
  shape.hidden = count(config, "hidden_size", 4096);
  shape.layers = count(config, "num_hidden_layers", 32);
  shape.heads = count(config, "num_attention_heads", 32);
  shape.kv_heads = count(config, "num_key_value_heads", shape.heads);
  shape.ffn = count(config, "intermediate_size", 11008);
  shape.vocabulary = count(config, "vocab_size", 32000);
  take_experts(config, shape);
  settings.gated = true;
  settings.positions = Positions::rotary;
  settings.max_positions = 0;
  settings.rotary_base = rotary_base(config);
  settings.biases = settings.layer_norm = false;
}

}  // namespace

void take_model(const JsonValue& config, Settings& settings) {
  DecoderShape& shape = settings.shape;
  const std::int64_t length = shape.seq;
  const std::string type = config.at("model_type").string();
  shape = {.family = played_as(type), .seq = length};
  const bool gpt2 = shape.family == "gpt2";
  if (gpt2)
    take_gpt2(config, settings);
  else
    take_gated(config, settings);
  shape.head_size =
      count(config, "head_dim", shape.heads > 0 ? shape.hidden / shape.heads : shape.hidden);
  settings.norms_queries = type == "qwen3" || type == "qwen3_moe";
  settings.tied = truth(config, "tie_word_embeddings", gpt2);
  settings.hidden_dropout = settings.attention_dropout = 0;
}

}  // namespace shardscope::megatron
