#include "core/pytorch/parallel/model_shape.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/model/config_text.h"

namespace shardscope::eager::parallel {
namespace {

Error not_known(const Model& model, std::string what) {
  return Error({.where = "--model",
                .what = fmt::format("{} {}, which torchtitan's Llama has not", model.class_name,
                                    std::move(what)),
                .way_out = "give a Llama, or another --runtime"});
}

std::string_view name_in_torchtitan(std::string_view family) {
  if (family == "qwen3_moe") return "mixtures of Qwen3";
  if (family == "deepseek_v3") return "mixtures of DeepSeek-V3";
  if (family == "gpt_oss") return "mixtures of GPT-OSS";
  return family == "qwen3" ? "Qwen3" : "Llama";
}

/// Throws Error if `wrong`. `what` says how the model differs from torchtitan's of its family.
void refuse_mixture(const Model& model, bool wrong, const char* what) {
  if (!wrong) return;
  throw Error({.where = "--model",
               .what = fmt::format("{} {}, unlike torchtitan's {}", model.class_name, what,
                                   name_in_torchtitan(model.family)),
               .way_out = "give another model, or another --runtime"});
}

bool is_on(const JsonValue& config, const char* key) {
  const std::optional<JsonValue> flag = config.find(key);
  return flag && flag->is_boolean() && flag->boolean();
}

void check_mixture(const Model& model, const JsonValue& config) {
  const auto refuse = [&](bool wrong, const char* what) { refuse_mixture(model, wrong, what); };
  refuse(!model.class_name.ends_with("ForCausalLM"), "is no language model with a head");
  refuse(!model.tied.empty() && is_mixture(model), "ties its embedding and output");
  if (model.family != "gpt_oss")
    refuse(is_on(config, "attention_bias"), "has biased attention projections");
  refuse(config.at("hidden_act").string() != "silu", "has a feed-forward without SwiGLU");
}

void check_qwen3(const Model& model, const JsonValue& config) {
  const auto refuse = [&](bool wrong, const char* what) { refuse_mixture(model, wrong, what); };
  refuse(config.at("decoder_sparse_step").integer() != 1, "has layers without experts");
  const std::optional<JsonValue> dense = config.find("mlp_only_layers");
  refuse(dense && !dense->elements().empty(), "has layers without experts");
  refuse(!is_on(config, "norm_topk_prob"), "does not normalize the scores of the chosen experts");
  refuse(is_on(config, "use_sliding_window"), "has sliding windows");
}

/// Of the first of two names that is there.
std::int64_t integer_of(const JsonValue& config, const char* name, const char* other) {
  const std::optional<JsonValue> found = config.find(name);
  return found ? found->integer() : config.at(other).integer();
}

void set_qwen3(const Model& model, const JsonValue& config, MixtureShape& shape) {
  check_qwen3(model, config);
  const std::optional<JsonValue> head_dim = config.find("head_dim");
  shape.kv_heads = config.at("num_key_value_heads").integer();
  shape.head_dim = head_dim ? head_dim->integer() : shape.dim / shape.heads;
  shape.experts = integer_of(config, "num_experts", "num_local_experts");
}

std::string scores_of(const JsonValue& config) {
  const std::optional<JsonValue> scores = config.find("scoring_func");
  return scores ? scores->string() : "sigmoid";
}

void check_deepseek(const Model& model, const JsonValue& config, const MixtureShape& shape) {
  const auto refuse = [&](bool wrong, const char* what) { refuse_mixture(model, wrong, what); };
  refuse(config.at("first_k_dense_replace").integer() >= shape.layers,
         "has no layers with experts");
  refuse(config.at("qk_rope_head_dim").integer() % 2 != 0,
         "has an odd qk_rope_head_dim, and rotary embedding turns pairs");
  const std::string scores = scores_of(config);
  refuse(scores != "sigmoid" && scores != "softmax", "scores experts by another scoring_func");
}

/// Without layers that predict further tokens (torchtitan's num_mtp_layers is 0 unless given).
void set_deepseek(const Model& model, const JsonValue& config, MixtureShape& shape) {
  check_deepseek(model, config, shape);
  const auto size = [&](const char* key) { return config.at(key).integer(); };
  const auto query_rank = config.find("q_lora_rank");
  shape.experts = integer_of(config, "n_routed_experts", "num_local_experts");
  shape.latent = LatentAttention{
      .query_rank = query_rank && !query_rank->is_null() ? query_rank->integer() : 0,
      .rank = size("kv_lora_rank"),
      .plain = size("qk_nope_head_dim"),
      .rotary = size("qk_rope_head_dim"),
      .value = size("v_head_dim")};
  shape.router = {.is_sigmoid = scores_of(config) == "sigmoid",
                  .normalizes = is_on(config, "norm_topk_prob"),
                  .groups = size("n_group"),
                  .chosen_groups = size("topk_group")};
  shape.shared_hidden = shape.hidden * size("n_shared_experts");
  shape.dense_layers = size("first_k_dense_replace");
  shape.dense_hidden = size("intermediate_size");
}

/// Every other layer has a window, from the first on.
bool alternates(const JsonValue& config) {
  const std::optional<JsonValue> types = config.find("layer_types");
  if (!types || types->is_null()) return true;
  bool is_window = true;
  for (const JsonValue& type : types->elements()) {
    if ((type.string() == "sliding_attention") != is_window) return false;
    is_window = !is_window;
  }
  return true;
}

void set_gpt_oss(const Model& model, const JsonValue& config, MixtureShape& shape) {
  const auto refuse = [&](bool wrong, const char* what) { refuse_mixture(model, wrong, what); };
  refuse(!is_on(config, "attention_bias"), "has attention projections without biases");
  refuse(!alternates(config), "has sliding windows in other layers");
  shape.kv_heads = config.at("num_key_value_heads").integer();
  shape.head_dim = config.at("head_dim").integer();
  shape.experts = integer_of(config, "num_experts", "num_local_experts");
  shape.norms_heads = false;
  shape.has_sinks = true;
  shape.window = config.at("sliding_window").integer(1);
}

void set_dense(const Model& model, const JsonValue& config, MixtureShape& shape) {
  refuse_mixture(model, model.family != "llama" && model.family != "qwen3", "is of another family");
  refuse_mixture(model, is_on(config, "mlp_bias"), "has a biased feed-forward");
  refuse_mixture(model, is_on(config, "use_sliding_window"), "has sliding windows");
  const std::optional<JsonValue> head_dim = config.find("head_dim");
  shape.kv_heads = config.at("num_key_value_heads").integer();
  shape.head_dim = head_dim && !head_dim->is_null() ? head_dim->integer() : shape.dim / shape.heads;
  shape.norms_heads = model.family == "qwen3";
  shape.turns_pairs = model.family == "llama";
  shape.ties_head = !model.tied.empty();
  shape.dense_layers = shape.layers;
  shape.dense_hidden = config.at("intermediate_size").integer();
}

}  // namespace

bool is_mixture(const Model& model) {
  return model.family == "qwen3_moe" || model.family == "deepseek_v3" || model.family == "gpt_oss";
}

MixtureShape mixture_shape(const Model& model, const JsonValue& given) {
  const JsonValue config = JsonValue::parse(config_text(given, model), "config.json");
  check_mixture(model, config);
  MixtureShape shape{.dim = config.at("hidden_size").integer(),
                     .layers = config.at("num_hidden_layers").integer(),
                     .heads = config.at("num_attention_heads").integer(),
                     .vocab = config.at("vocab_size").integer()};
  if (!is_mixture(model)) {
    set_dense(model, config, shape);
    return shape;
  }
  shape.top_k = config.at("num_experts_per_tok").integer();
  const bool is_gpt_oss = model.family == "gpt_oss";
  shape.hidden = config.at(is_gpt_oss ? "intermediate_size" : "moe_intermediate_size").integer();
  if (is_gpt_oss)
    set_gpt_oss(model, config, shape);
  else if (model.family == "qwen3_moe")
    set_qwen3(model, config, shape);
  else
    set_deepseek(model, config, shape);
  return shape;
}

LlamaShape llama_shape(const Model& model) {
  if (is_mixture(model))
    throw Error({.where = "--model",
                 .what = fmt::format("{} is a mixture of experts, and a dense Llama is needed here",
                                     model.class_name),
                 .way_out = "give a Llama, or its config.json"});
  if (!model.decoder || model.decoder->blocks.empty())
    throw not_known(model, "is no decoder of a kind that is known here");
  const Decoder& decoder = *model.decoder;
  const DecoderBlock& first = decoder.blocks.front();
  for (const DecoderBlock& block : decoder.blocks) {
    if (block.mlp != MlpKind::swiglu || block.mlp_in.size() != 2)
      throw not_known(model, "has a feed-forward without SwiGLU");
    if (block.attention_norm.kind != NormKind::rms_norm) throw not_known(model, "has LayerNorm");
    if (block.qkv.size() != 3 || block.qkv[0].bias || block.attention_out.bias)
      throw not_known(model, "has a fused or biased attention projection");
  }
  if (!decoder.rope) throw not_known(model, "has no rotary positions");
  if (decoder.heads * decoder.head_dim != decoder.width)
    throw not_known(model, "has heads that do not make up its width");
  if (decoder.head.weight == decoder.token_embedding)
    throw Error({.where = "--model",
                 .what = fmt::format("{} ties its embedding and output, which torchtitan's Llama "
                                     "of 2025 has not",
                                     model.class_name),
                 .way_out = "give --layers torchtitan-0.3 (simulate), whose Llama may, or a "
                            "config.json with \"tie_word_embeddings\": false"});
  return {.dim = decoder.width,
          .layers = static_cast<std::int64_t>(decoder.blocks.size()),
          .heads = decoder.heads,
          .kv_heads = decoder.kv_heads,
          .hidden = first.mlp_in[0].out,
          .vocab = decoder.vocabulary};
}

}  // namespace shardscope::eager::parallel
