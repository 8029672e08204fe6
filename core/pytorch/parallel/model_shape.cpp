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

void check_mixture(const Model& model, const JsonValue& config) {
  const auto refuse = [&](bool wrong, const char* what) {
    if (!wrong) return;
    throw Error({.where = "--model",
                 .what = fmt::format("{} {}, unlike torchtitan's mixtures of Qwen3",
                                     model.class_name, what),
                 .way_out = "give another model, or another --runtime"});
  };
  refuse(model.class_name != "Qwen3MoeForCausalLM", "is no language model with a head");
  refuse(!model.tied.empty(), "ties its embedding and output");
  refuse(config.at("decoder_sparse_step").integer() != 1, "has layers without experts");
  const std::optional<JsonValue> dense = config.find("mlp_only_layers");
  refuse(dense && !dense->elements().empty(), "has layers without experts");
  refuse(config.at("attention_bias").boolean(), "has biased attention projections");
  const auto is_on = [&](const char* key) {
    const std::optional<JsonValue> flag = config.find(key);
    return flag && flag->is_boolean() && flag->boolean();
  };
  refuse(!is_on("norm_topk_prob"), "does not normalize the scores of the chosen experts");
  refuse(is_on("use_sliding_window"), "has sliding windows");
  refuse(config.at("hidden_act").string() != "silu", "has a feed-forward without SwiGLU");
}

/// Of the first of two names that is there.
std::int64_t integer_of(const JsonValue& config, const char* name, const char* other) {
  const std::optional<JsonValue> found = config.find(name);
  return found ? found->integer() : config.at(other).integer();
}

}  // namespace

bool is_mixture(const Model& model) { return model.family == "qwen3_moe"; }

MixtureShape mixture_shape(const Model& model, const JsonValue& given) {
  const JsonValue config = JsonValue::parse(config_text(given, model), "config.json");
  check_mixture(model, config);
  const std::int64_t heads = config.at("num_attention_heads").integer();
  const std::int64_t dim = config.at("hidden_size").integer();
  const std::optional<JsonValue> head_dim = config.find("head_dim");
  return {.dim = dim,
          .layers = config.at("num_hidden_layers").integer(),
          .heads = heads,
          .kv_heads = config.at("num_key_value_heads").integer(),
          .head_dim = head_dim ? head_dim->integer() : dim / heads,
          .vocab = config.at("vocab_size").integer(),
          .experts = integer_of(config, "num_experts", "num_local_experts"),
          .top_k = config.at("num_experts_per_tok").integer(),
          .hidden = config.at("moe_intermediate_size").integer()};
}

LlamaShape llama_shape(const Model& model) {
  if (is_mixture(model))
    throw Error(
        {.where = "--model",
         .what = fmt::format("{} is a mixture of experts, and torchtitan's layouts and pipelines "
                             "are weighed only for Llama",
                             model.class_name),
         .way_out = "give a Llama, or predict one layout: simulate --runtime torchtitan"});
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
    throw not_known(model, "ties its embedding and output");
  return {.dim = decoder.width,
          .layers = static_cast<std::int64_t>(decoder.blocks.size()),
          .heads = decoder.heads,
          .kv_heads = decoder.kv_heads,
          .hidden = first.mlp_in[0].out,
          .vocab = decoder.vocabulary};
}

}  // namespace shardscope::eager::parallel
