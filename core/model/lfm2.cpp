// LFM2. Source: transformers 5.24, models/lfm2/modeling_lfm2.py and configuration_lfm2.py.
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "core/model/family.h"
#include "core/model/short_convolution.h"

namespace shardscope {
namespace {

/// Lfm2MLP.__init__: two thirds of the width, rounded up.
std::int64_t adjusted_width(const ConfigReader& config, std::int64_t width) {
  if (!config.flag("block_auto_adjust_ff_dim")) return width;
  width = 2 * width / 3;
  const auto factor = config.find("block_ffn_dim_multiplier");
  if (!factor) return width;
  const double adjusted = positive_number(*factor) * static_cast<double>(width);
  constexpr double most = 1 << 26;
  if (adjusted > most)
    throw factor->error(fmt::format("makes a width of {:.4g}, more than {}", adjusted, most));
  width = static_cast<std::int64_t>(adjusted);
  const std::int64_t multiple = config.size({"block_multiple_of"});
  return (width + multiple - 1) / multiple * multiple;
}

void build_feed_forward(const ConfigReader& config, const std::string& layer,
                        const FeedForward& shape, Model& model) {
  FeedForward adjusted = shape;
  adjusted.inner = adjusted_width(config, config.size({"block_ff_dim", "intermediate_size"}));
  add_numbered_feed_forward(model, layer + ".feed_forward", "Lfm2MLP", adjusted);
}

void build_lfm2(const ConfigReader& config, Model& model) {
  GatedDecoder lfm2 = short_convolution_decoder("Lfm2");
  lfm2.tied_key = "tie_embedding";
  lfm2.feed_forward = build_feed_forward;
  build_gated_decoder(config, lfm2, model);
}

/// Older names of the fields.
void construct_lfm2(ConfigFields& fields, const Model&) {
  for (const auto& [older, newer] : {std::pair{"tie_embedding", "tie_word_embeddings"},
                                     std::pair{"block_ff_dim", "intermediate_size"}}) {
    if (!fields.has(older)) continue;
    fields.set(newer, fields.text(older));
    fields.erase(older);
  }
}

void complete_lfm2(ConfigFields& fields, TransformersVersion) {
  complete_short_convolutions(fields);
}

/// Source: transformers 5.24, configuration_lfm2.py, class Lfm2Config.
constexpr std::string_view default_config = R"({
  "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256,
  "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "eos_token_id": 2, "full_attn_idxs": null,
  "hidden_size": 2560, "initializer_range": 0.02, "intermediate_size": 12288, "layer_types": null,
  "max_position_embeddings": 128000, "model_type": "lfm2", "norm_eps": 1e-05, "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "pad_token_id": 0, "rope_parameters": null,
  "tie_word_embeddings": true, "use_cache": true, "vocab_size": 65536})";

}  // namespace

ModelFamily lfm2_family() {
  return {.model_type = "lfm2",
          .default_class = "Lfm2ForCausalLM",
          .classes = {"Lfm2ForCausalLM", "Lfm2Model"},
          .generating_classes = {"Lfm2ForCausalLM"},
          .default_config = default_config,
          .rope = RopeKeys{.default_theta = "1000000.0"},
          .complete = complete_lfm2,
          .construct = construct_lfm2,
          .build = build_lfm2};
}

}  // namespace shardscope
