// The model families: one file each, listed in family.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/model/config_fields.h"
#include "core/model/config_reader.h"
#include "core/model/model.h"
#include "core/model/rope_parameters.h"

namespace shardscope {

struct ModelFamily {
  std::string_view model_type;  ///< config.json's model_type
  std::string_view
      default_class;  ///< where config.json names no architecture: its causal language model
  std::vector<std::string_view> classes;  ///< those that can be built, the default one among them
  std::vector<std::string_view> generating_classes;  ///< those with a generation_config.json
  /// JSON: every key that the config class has, with its default, in transformers 5 and 4. Empty:
  /// that release is not known to have the family.
  std::string_view default_config;
  std::string_view default_config_4;
  /// Other names of keys, as the config class's attribute_map: {"hidden_size", "n_embd"}.
  std::vector<std::pair<std::string_view, std::string_view>> config_aliases;
  bool aliases_from_5 = false;  ///< transformers 4 does not know them
  bool has_sdpa = true;         ///< _supports_sdpa of its classes; else transformers runs eager
  bool has_sdpa_4 = true;       ///< of transformers 4
  std::optional<RopeKeys> rope = {};  ///< of a class with rope_parameters
  /// What the config class makes of its fields when it is constructed, beyond what all do; null:
  /// nothing.
  void (*complete)(ConfigFields& fields, TransformersVersion version) = nullptr;
  /// What is written into the fields last, by a config class that constructs its base first or by
  /// the model's constructor; null: nothing.
  void (*construct)(ConfigFields& fields, const Model& model) = nullptr;
  /// `model` comes with family, class, version and dtype; parameters, modules and the decoder are
  /// filled in.
  void (*build)(const ConfigReader& config, Model& model);
};

/// In alphabetical order.
const std::vector<ModelFamily>& model_families();
/// Null if there is none.
const ModelFamily* find_family(std::string_view model_type);
/// Whether transformers runs the model with scaled_dot_product_attention unless it is told
/// otherwise; of a model of no family true.
bool has_sdpa(const Model& model);
/// The family's default_config of that version, parsed.
JsonValue defaults_of(const ModelFamily& family, TransformersVersion version);

ModelFamily afmoe_family();
ModelFamily arcee_family();
ModelFamily bert_family();
ModelFamily bloom_family();
ModelFamily cohere2_family();
ModelFamily cohere_family();
ModelFamily deepseek_v3_family();
ModelFamily dots1_family();
ModelFamily ernie4_5_family();
ModelFamily exaone4_family();
ModelFamily gemma2_family();
ModelFamily gemma3_text_family();
ModelFamily gemma_family();
ModelFamily glm4_family();
ModelFamily gemma4_text_family();
ModelFamily glm4_moe_family();
ModelFamily glm_family();
ModelFamily gpt2_family();
ModelFamily gpt_neox_family();
ModelFamily gpt_oss_family();
ModelFamily gptj_family();
ModelFamily granite_family();
ModelFamily granitemoehybrid_family();
ModelFamily hunyuan_v1_dense_family();
ModelFamily lfm2_family();
ModelFamily lfm2_moe_family();
ModelFamily litgpt_family();
ModelFamily llama4_text_family();
ModelFamily llama_family();
ModelFamily minimax_m2_family();
ModelFamily ministral3_family();
ModelFamily ministral_family();
ModelFamily mistral_family();
ModelFamily mixtral_family();
ModelFamily olmo2_family();
ModelFamily olmo3_family();
ModelFamily olmo_family();
ModelFamily olmoe_family();
ModelFamily opt_family();
ModelFamily phi3_family();
ModelFamily phi_family();
ModelFamily qwen2_family();
ModelFamily qwen2_moe_family();
ModelFamily qwen3_family();
ModelFamily qwen3_moe_family();
ModelFamily qwen_family();
ModelFamily roberta_family();
ModelFamily seed_oss_family();
ModelFamily smollm3_family();
ModelFamily stablelm_family();
ModelFamily starcoder2_family();
ModelFamily t5_family();

}  // namespace shardscope
