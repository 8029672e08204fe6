// Mixtral. Source: transformers 5.23 and 4.57.6, models/mixtral/modeling_mixtral.py and
// configuration_mixtral.py; conversion_mapping.py for the names in files.
#include <fmt/format.h>

#include <string>

#include "core/model/config_rules.h"
#include "core/model/family.h"
#include "core/model/gated_decoder.h"
#include "core/model/modules.h"
#include "core/model/natural_order.h"

namespace shardscope {
namespace {

constexpr RopeKeys rope_keys{.default_theta = "1000000.0", .null_head_dim = true};

/// All experts in two tensors, [E, 2I, H] and [E, H, I].
void build_packed_experts(const std::string& mlp, std::int64_t experts, const FeedForward& shape,
                          Model& model) {
  add_module(model, mlp, "MixtralSparseMoeBlock");
  add_module(model, mlp + ".gate", "MixtralTopKRouter");
  add_parameter(model, mlp + ".gate.weight", {experts, shape.width},
                {.standard_deviation = shape.standard_deviation});
  const std::string packed = mlp + ".experts";
  add_module(model, packed, "MixtralExperts");
  add_parameter(model, packed + ".gate_up_proj", {experts, 2 * shape.inner, shape.width},
                {.standard_deviation = shape.standard_deviation});
  add_parameter(model, packed + ".down_proj", {experts, shape.width, shape.inner},
                {.standard_deviation = shape.standard_deviation});
  add_module(model, packed + ".act_fn", activation_class(shape.activation));
}

/// transformers 4: three Linears for each expert.
void build_single_experts(const std::string& mlp, std::int64_t experts, const FeedForward& shape,
                          Model& model) {
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    add_linear(model, name, {.in = in, .out = out, .bias = false}, shape.standard_deviation);
  };
  add_module(model, mlp, "MixtralSparseMoeBlock");
  linear(mlp + ".gate", shape.width, experts);
  add_module(model, mlp + ".experts", "ModuleList");
  for (std::int64_t i = 0; i < experts; ++i) {
    const std::string expert = fmt::format("{}.experts.{}", mlp, i);
    add_module(model, expert, "MixtralBlockSparseTop2MLP");
    linear(expert + ".w1", shape.width, shape.inner);
    linear(expert + ".w2", shape.inner, shape.width);
    linear(expert + ".w3", shape.width, shape.inner);
    add_module(model, expert + ".act_fn", activation_class(shape.activation));
  }
}

/// An expert is several modules and tensors: all layers' together stay countable.
std::int64_t read_experts(const ConfigReader& config) {
  constexpr std::int64_t most_experts = 1 << 16;
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  const std::int64_t experts = config.version() == TransformersVersion::v4
                                   ? config.layers({"num_local_experts"})
                                   : config.layers({"num_experts", "num_local_experts"});
  if (const std::int64_t chosen = config.integer("num_experts_per_tok");
      chosen < 1 || chosen > experts)
    throw config.error("num_experts_per_tok",
                       fmt::format("expected 1 to the {} experts, got {}", experts, chosen));
  if (layers * experts > most_experts)
    throw config.error("num_local_experts",
                       fmt::format("{} experts in {} layers are more than {} in all", experts,
                                   layers, most_experts));
  return experts;
}

void build_experts(const ConfigReader& config, const std::string& layer, const FeedForward& shape,
                   Model& model) {
  const std::int64_t experts = read_experts(config);
  if (model.transformers == TransformersVersion::v4)
    build_single_experts(layer + ".block_sparse_moe", experts, shape, model);
  else
    build_packed_experts(layer + ".mlp", experts, shape, model);
}

/// "model.layers.0.mlp.gate.weight" stands in files under "block_sparse_moe".
std::string name_in_files(std::string name) {
  constexpr std::string_view here = ".mlp.", there = ".block_sparse_moe.";
  if (const std::size_t at = name.find(here); at != std::string::npos)
    name.replace(at, here.size(), there);
  return name;
}

/// Rows [begin, end) of each expert, as tensors "<experts>.<n>.<part>.weight" of one block.
struct Slices {
  std::string_view part;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t block = 0;
};

void store_slices(Model& model, ParameterId packed, const Slices& slices) {
  const Parameter& parameter = model.parameters[packed.value];
  const std::string experts = name_in_files(parameter.name.substr(0, parameter.name.rfind('.')));
  const std::int64_t rows = parameter.shape[1], columns = parameter.shape[2];
  for (std::int64_t i = 0; i < parameter.shape[0]; ++i)
    model.stored.push_back({.key = fmt::format("{}.{}.{}.weight", experts, i, slices.part),
                            .parameter = packed,
                            .first = (i * rows + slices.begin) * columns,
                            .shape = {slices.end - slices.begin, columns},
                            .block = slices.block});
}

/// Gate and up are copied apart before they are cut, unless a single expert lets them lie as they
/// are. Source: core_model_loading.py, Chunk and SplitModulelist.
void store_as_published(Model& model) {
  std::int64_t block = 0;
  for (const ParameterId id : in_natural_order(model)) {
    const Parameter& parameter = model.parameters[id.value];
    if (parameter.name.ends_with(".experts.gate_up_proj")) {
      const std::int64_t rows = parameter.shape[1];
      store_slices(model, id, {"w1", 0, rows / 2, ++block});
      if (parameter.shape[0] > 1) ++block;
      store_slices(model, id, {"w3", rows / 2, rows, block});
    } else if (parameter.name.ends_with(".experts.down_proj")) {
      store_slices(model, id, {"w2", 0, parameter.shape[1], ++block});
    } else {
      model.stored.push_back(
          {.key = name_in_files(parameter.name), .parameter = id, .shape = parameter.shape});
    }
  }
}

void build_mixtral(const ConfigReader& config, Model& model) {
  build_gated_decoder(config,
                      {.name = "Mixtral",
                       .rope = rope_keys,
                       .question_prefix = "model",
                       .needs_kv_heads = model.transformers == TransformersVersion::v5,
                       .feed_forward = build_experts,
                       .why_no_decoder = "mixture of experts"},
                      model);
  if (model.transformers == TransformersVersion::v5) store_as_published(model);
}

void complete_mixtral(ConfigFields& fields, TransformersVersion) { fill_key_value_heads(fields); }

/// Source: transformers 5.23, configuration_mixtral.py, class MixtralConfig.
constexpr std::string_view default_config = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false, "pad_token_id": null,
  "rms_norm_eps": 1e-05, "rope_parameters": null, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
  "sliding_window": null, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

/// Source: transformers 4.57.6, the same class.
constexpr std::string_view default_config_4 = R"({
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": null, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false, "pad_token_id": null,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
  "sliding_window": null, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 32000})";

}  // namespace

ModelFamily mixtral_family() {
  return {.model_type = "mixtral",
          .default_class = "MixtralForCausalLM",
          .classes = {"MixtralForCausalLM", "MixtralModel", "MixtralForSequenceClassification",
                      "MixtralForTokenClassification", "MixtralForQuestionAnswering"},
          .generating_classes = {"MixtralForCausalLM"},
          .default_config = default_config,
          .default_config_4 = default_config_4,
          .config_aliases = {{"num_experts", "num_local_experts"}},
          .aliases_from_5 = true,
          .rope = rope_keys,
          .complete = complete_mixtral,
          .build = build_mixtral};
}

}  // namespace shardscope
