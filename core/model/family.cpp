#include "core/model/family.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace shardscope {

const std::vector<ModelFamily>& model_families() {
  static const std::vector<ModelFamily> families{afmoe_family(),
                                                 arcee_family(),
                                                 bert_family(),
                                                 bloom_family(),
                                                 cohere2_family(),
                                                 cohere_family(),
                                                 deepseek_v3_family(),
                                                 dots1_family(),
                                                 ernie4_5_family(),
                                                 exaone4_family(),
                                                 gemma2_family(),
                                                 gemma3_text_family(),
                                                 gemma4_text_family(),
                                                 gemma_family(),
                                                 glm4_family(),
                                                 glm4_moe_family(),
                                                 glm_family(),
                                                 gpt2_family(),
                                                 gpt_neox_family(),
                                                 gpt_oss_family(),
                                                 gptj_family(),
                                                 granite_family(),
                                                 granitemoehybrid_family(),
                                                 hunyuan_v1_dense_family(),
                                                 lfm2_family(),
                                                 lfm2_moe_family(),
                                                 litgpt_family(),
                                                 llama4_text_family(),
                                                 llama_family(),
                                                 ministral3_family(),
                                                 minimax_m2_family(),
                                                 ministral_family(),
                                                 mistral_family(),
                                                 mixtral_family(),
                                                 olmo2_family(),
                                                 olmo3_family(),
                                                 olmo_family(),
                                                 olmoe_family(),
                                                 opt_family(),
                                                 phi3_family(),
                                                 phi_family(),
                                                 qwen2_family(),
                                                 qwen2_moe_family(),
                                                 qwen3_family(),
                                                 qwen3_moe_family(),
                                                 qwen_family(),
                                                 roberta_family(),
                                                 seed_oss_family(),
                                                 smollm3_family(),
                                                 stablelm_family(),
                                                 starcoder2_family(),
                                                 t5_family()};
  return families;
}

const ModelFamily* find_family(std::string_view model_type) {
  for (const ModelFamily& family : model_families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

bool has_sdpa(const Model& model) {
  const ModelFamily* family = find_family(model.family);
  if (family == nullptr) return true;
  return model.transformers == TransformersVersion::v4 ? family->has_sdpa_4 : family->has_sdpa;
}

JsonValue defaults_of(const ModelFamily& family, TransformersVersion version) {
  if (version == TransformersVersion::v4 && family.default_config_4.empty())
    throw Error({.where = fmt::format("model_type {}", family.model_type),
                 .what = "it is known as transformers 5 has it",
                 .way_out = "leave out --transformers 4"});
  return JsonValue::parse(
      version == TransformersVersion::v4 ? family.default_config_4 : family.default_config,
      std::string(family.model_type) + "'s defaults");
}

}  // namespace shardscope
