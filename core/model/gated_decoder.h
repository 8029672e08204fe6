// Llama and its relatives: decoders of RMS norms, rotary embedding, grouped attention without
// position table, and a gated feed-forward part. A family says in what it differs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/config_reader.h"
#include "core/model/model.h"
#include "core/model/rope_parameters.h"

namespace shardscope {

/// What a feed-forward part is built from.
struct FeedForward {
  std::int64_t layer = 0;  ///< from 0
  std::int64_t width = 0;
  std::int64_t inner = 0;
  std::string activation;  ///< as the config names it
  double standard_deviation = 0;
};

/// What an attention is built from.
struct AttentionParts {
  std::int64_t layer = 0;  ///< from 0
  std::int64_t width = 0;
  std::int64_t heads = 0;
  double standard_deviation = 0;
};

/// RMS norms of query and key: of each head, or of all heads' together.
enum class QueryKeyNorms : std::uint8_t { none, each_head, whole };

/// In which order a layer registers its attention, norms and feed-forward part.
enum class LayerOrder : std::uint8_t {
  attention_feed_forward_norms,
  attention_norms_feed_forward,  ///< AFMoE
  norms_feed_forward_attention   ///< Granite 4
};

/// In what the relatives differ.
struct GatedDecoder {
  std::string_view name;  ///< how its classes begin: "Llama"
  /// What stands behind it in the classes of layers and their parts, norms apart: "Text" of
  /// Gemma 4.
  std::string_view part_prefix = {};
  std::string_view attention_class = "Attention";  ///< how its attention's class ends
  std::string_view base_class = "Model";           ///< how its base model's class ends
  std::string_view activation_key = "hidden_act";
  std::string_view activation;  ///< instead of what the config names; empty: as it says
  RopeKeys rope;
  std::string_view head_dim_key = "head_dim";  ///< of what the rotary embedding turns
  bool qkv_bias = false;
  bool out_bias = false;  ///< of the attention's last projection
  bool mlp_bias = false;
  QueryKeyNorms query_key_norms = QueryKeyNorms::none;
  bool attention_dropout = true;     ///< the config has its probability
  bool attention_sinks = false;      ///< a number for each head, in the attention itself
  bool packed_attention = false;     ///< q, k, v in one Linear
  bool packed_feed_forward = false;  ///< gate and up in one Linear
  std::string_view query_norm = "q_norm", key_norm = "k_norm";
  std::string_view out_projection = "o_proj";
  /// A projection, after the norms of query and key, that gates what attention gives; empty: none.
  std::string_view attention_gate = {};
  NormKind norm = NormKind::rms_norm;  ///< layer_norm: PyTorch's, with a bias
  /// How the norms' class ends where they are not PyTorch's.
  std::string_view norm_class = "RMSNorm";
  bool weightless_norms = false;  ///< of a class of the family's own (OLMo)
  std::string_view rotary_name = "rotary_emb";
  std::string_view epsilon_key = "rms_norm_eps";  ///< empty: the class has a number of its own
  std::string_view tied_key;  ///< an older key that says whether the head is tied; empty: none
  std::vector<std::string_view> norms = {"input_layernorm", "post_attention_layernorm"};
  LayerOrder order = LayerOrder::attention_feed_forward_norms;
  std::vector<std::string_view> dropouts;  ///< of a layer, after the norms
  std::string_view final_norm = "norm";
  /// Where the model has one, the final norm is registered last, behind the rotary embedding.
  std::string_view dropout_before_final_norm;
  bool final_norm_last = false;  ///< registered behind the rotary embedding
  std::string_view embedding_class = "Embedding";
  /// The types of layers, in alphabetical order, where each has a rotary embedding of its own
  /// (Gemma 3); empty: one for all.
  std::vector<std::string> rotary_types;
  std::int64_t full_head_dim =
      0;                   ///< of layers of full attention, where it differs; 0: it does not
  bool head_bias = false;  ///< of ForCausalLM's lm_head
  /// Attribute that holds the base model of ForQuestionAnswering; empty: there is no such class.
  std::string_view question_prefix;
  std::optional<std::string_view> base_model_prefix;  ///< where it is not that attribute
  bool dropout_and_rotary_in_attention = false;       ///< each layer's attention has its own
  bool needs_kv_heads = false;                        ///< num_key_value_heads null is refused
  /// hidden_size must be a multiple of the heads, even where head_dim is given.
  bool whole_heads = false;
  /// Instead of the gated feed-forward part; `layer` is the layer's name.
  void (*feed_forward)(const ConfigReader& config, const std::string& layer,
                       const FeedForward& shape, Model& model) = nullptr;
  /// Instead of the projections; `attention` is the attention's name.
  void (*attention)(const ConfigReader& config, const std::string& attention,
                    const AttentionParts& shape, Model& model) = nullptr;
  /// Builds what some layers have instead of attention; false: this one has attention. `layer` is
  /// the layer's name.
  bool (*mixer)(const ConfigReader& config, const std::string& layer, const AttentionParts& shape,
                Model& model) = nullptr;
  std::string_view mixer_layer_type;  ///< its name in layer_types
  /// What a layer has after its norms, and the base model after its rotary embedding.
  void (*finish_layer)(const ConfigReader& config, const std::string& layer,
                       const FeedForward& shape, Model& model) = nullptr;
  void (*finish_base)(const ConfigReader& config, const std::string& base, const FeedForward& shape,
                      Model& model) = nullptr;
  std::string why_no_decoder;  ///< what the native runtime lacks; empty: nothing
};

/// Fills `model`, whose class is one of the relative's.
void build_gated_decoder(const ConfigReader& config, const GatedDecoder& relative, Model& model);

/// Error where the config asks for qk_layernorm (Phi, StableLM).
void refuse_query_key_norms(const ConfigReader& config);

/// The buffer embed_scale of an embedding that was added last.
void add_scale(Model& model, const std::string& embedding);
/// The buffer embed_scale of the token embedding, as Gemma's family has it from transformers 5 on.
void add_embedding_scale(Model& model);

}  // namespace shardscope
