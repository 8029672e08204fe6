#include "sim/validate/published_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

/// Megatron's pretraining scripts pad GPT-2's 50257 tokens to a multiple of 128 a rank.
constexpr std::int64_t usual_vocabulary = 50304;
/// How far the shape's parameters may be from params_b, which sources round or count without
/// embeddings.
constexpr double tolerated_difference = 0.2;

struct FamilyWord {
  std::string_view word;
  std::string_view family;
};
constexpr std::array<FamilyWord, 9> family_words{{{"mpt", "gpt2"},
                                                  {"gpt", "gpt2"},
                                                  {"llama", "llama"},
                                                  {"internlm", "llama"},
                                                  {"mistral", "llama"},
                                                  {"nanotron", "llama"},
                                                  {"qwen2", "qwen2"},
                                                  {"qwen", "qwen2"},
                                                  {"opt", "gpt2"}}};

std::string_view family_of(const PublishedRow& row) {
  if (row.latents) return "deepseek_v3";
  if (row.experts) return has_word(row.model, "qwen3") ? "qwen3_moe" : "mixtral";
  for (const FamilyWord& known : family_words)
    if (has_word(row.model, known.word)) return known.family;
  const bool plain = row.ffn.value_or(4 * *row.hidden) == 4 * *row.hidden;
  return plain ? "gpt2" : "llama";
}

/// What both families need, with what had to be assumed filled in.
struct StatedShape {
  std::int64_t hidden, layers, heads, kv_heads, ffn, vocabulary, seq, head_size;
  ExpertShape experts;
  LatentShape latents;
};

std::string gpt2_config(const StatedShape& shape, double dropout, bool tied) {
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

GatedFamily gated_family(const StatedShape& shape, std::string_view family) {
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

std::string gated_config(const StatedShape& shape, std::string_view family, bool tied) {
  const GatedFamily known = gated_family(shape, family);
  const std::int64_t inner = family == "mixtral" ? shape.experts.inner : shape.ffn;
  return fmt::format(
      R"({{"model_type": "{}", "architectures": ["{}ForCausalLM"], "hidden_size": {},
"num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, {}
"intermediate_size": {}, "vocab_size": {}, "max_position_embeddings": {},
"tie_word_embeddings": {}}})",
      family, known.name, shape.hidden, shape.layers, shape.heads, shape.kv_heads, known.keys,
      inner, shape.vocabulary, shape.seq, tied);
}

PublishedModel made(const PublishedRow& row, const StatedShape& shape, double dropout, bool tied) {
  const std::string_view family = family_of(row);
  const std::string text =
      family == "gpt2" ? gpt2_config(shape, dropout, tied) : gated_config(shape, family, tied);
  JsonValue config = JsonValue::parse(text, "shape");
  Model model = model_of_config(config);
  return {.model = std::move(model), .config = std::move(config)};
}

double billions(const PublishedModel& made) {
  return static_cast<double>(made.model.parameter_elements()) * 1e-9;
}

double difference(const PublishedModel& made, double stated) {
  return std::abs(billions(made) - stated) / stated;
}

void check_parameters(const PublishedModel& made, double stated) {
  if (difference(made, stated) <= tolerated_difference) return;
  throw Error(
      {.where = "",
       .what = fmt::format("its shape makes {:.2f} billion parameters, params_b says {:.2f}",
                           billions(made), stated)});
}

}  // namespace

std::string missing_shape(const PublishedRow& row) {
  const std::pair<bool, std::string_view> stated[] = {{row.hidden.has_value(), "hidden size"},
                                                      {row.layers.has_value(), "number of layers"},
                                                      {row.heads.has_value(), "number of heads"},
                                                      {row.seq.has_value(), "sequence length"}};
  for (const auto& [is_stated, name] : stated)
    if (!is_stated) return fmt::format("{} not stated", name);
  return {};
}

namespace {

/// Qwen3's heads have a size of their own: config.json of Qwen3-30B-A3B and Qwen3-235B-A22B.
std::int64_t head_size_of(const PublishedRow& row) {
  constexpr std::int64_t of_qwen3 = 128;
  return family_of(row) == "qwen3_moe" ? of_qwen3 : *row.hidden / *row.heads;
}

StatedShape shape_of(const PublishedRow& row) {
  return {.hidden = *row.hidden,
          .layers = *row.layers,
          .heads = *row.heads,
          .kv_heads = row.kv_heads.value_or(*row.heads),
          .ffn = row.ffn.value_or(4 * *row.hidden),
          .vocabulary = row.vocabulary.value_or(usual_vocabulary),
          .seq = *row.seq,
          .head_size = head_size_of(row),
          .experts = row.experts.value_or(ExpertShape{}),
          .latents = row.latents.value_or(LatentShape{})};
}

/// With so many of the row's layers.
StatedShape shape_of_layers(const PublishedRow& row, int layers) {
  StatedShape shape = shape_of(row);
  if (layers < shape.layers) shape.experts.dense_layers = 0;
  shape.layers = layers;
  return shape;
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

PublishedModel tensor_part(const PublishedRow& row, const PublishedModel& model, int layers,
                           std::int64_t ranks, double dropout) {
  StatedShape shape = shape_of_layers(row, layers);
  const bool by_cut = family_of(row) == "gpt2";
  shape.ffn /= ranks;
  shape.vocabulary = (shape.vocabulary + ranks - 1) / ranks;
  if (!by_cut) {
    shape.heads /= ranks;
    shape.kv_heads /= ranks;
  }
  PublishedModel part = made(row, shape, dropout, is_tied(model));
  if (by_cut) cut_attention(part.model, ranks);
  return part;
}

PublishedModel expert_part(const PublishedRow& row, const PublishedModel& model, int layers,
                           std::int64_t ranks, double dropout) {
  StatedShape shape = shape_of_layers(row, layers);
  shape.experts.experts = std::max(shape.experts.experts / ranks, shape.experts.chosen);
  return made(row, shape, dropout, is_tied(model));
}

bool is_tied(const PublishedModel& model) {
  return model.config.at("tie_word_embeddings").boolean();
}

PublishedModel with_layers(const PublishedRow& row, const PublishedModel& model, int layers,
                           double dropout) {
  return made(row, shape_of_layers(row, layers), dropout, is_tied(model));
}

PublishedModel published_model(const PublishedRow& row, double dropout) {
  const StatedShape shape = shape_of(row);
  const bool usually_tied = family_of(row) == "gpt2";
  PublishedModel result = made(row, shape, dropout, usually_tied);
  if (row.parameters_billions) {
    PublishedModel other = made(row, shape, dropout, !usually_tied);
    const double stated = *row.parameters_billions;
    if (difference(other, stated) < difference(result, stated)) result = std::move(other);
    check_parameters(result, stated);
  }
  if (!row.vocabulary)
    result.assumed.push_back(fmt::format("a vocabulary of {} tokens", shape.vocabulary));
  if (row.seq_in_notes)
    result.assumed.push_back(fmt::format("the notes' sequence length of {} tokens", shape.seq));
  if (!row.ffn && !row.experts)
    result.assumed.push_back("feed-forward layers of four times the hidden size");
  return result;
}

}  // namespace shardscope
