#include "core/model/module_classes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/model/family.h"

namespace shardscope {
namespace {

constexpr std::pair<std::string_view, std::string_view> single_bases[] = {
    {"AfmoeDecoderLayer", "GradientCheckpointingLayer"},
    {"AfmoeExpertList", "ModuleList"},
    {"ArceeDecoderLayer", "GradientCheckpointingLayer"},
    {"BertLayer", "GradientCheckpointingLayer"},
    {"BertSdpaSelfAttention", "BertSelfAttention"},
    {"BloomBlock", "GradientCheckpointingLayer"},
    {"CohereDecoderLayer", "GradientCheckpointingLayer"},
    {"Cohere2DecoderLayer", "GradientCheckpointingLayer"},
    {"DeepseekV3DecoderLayer", "GradientCheckpointingLayer"},
    {"Dots1DecoderLayer", "GradientCheckpointingLayer"},
    {"Dropout", "_DropoutNd"},
    {"Ernie4_5DecoderLayer", "GradientCheckpointingLayer"},
    {"Exaone4DecoderLayer", "GradientCheckpointingLayer"},
    {"GPT2Block", "GradientCheckpointingLayer"},
    {"GPTJBlock", "GradientCheckpointingLayer"},
    {"GPTNeoXLayer", "GradientCheckpointingLayer"},
    {"GemmaDecoderLayer", "GradientCheckpointingLayer"},
    {"GemmaTextScaledWordEmbedding", "Embedding"},
    {"Gemma2DecoderLayer", "GradientCheckpointingLayer"},
    {"Gemma2TextScaledWordEmbedding", "Embedding"},
    {"Gemma3DecoderLayer", "GradientCheckpointingLayer"},
    {"Gemma3TextScaledWordEmbedding", "Embedding"},
    {"Gemma4TextDecoderLayer", "GradientCheckpointingLayer"},
    {"Gemma4TextScaledWordEmbedding", "Embedding"},
    {"GlmDecoderLayer", "GradientCheckpointingLayer"},
    {"Glm4DecoderLayer", "GradientCheckpointingLayer"},
    {"Glm4MoeDecoderLayer", "GradientCheckpointingLayer"},
    {"GptOssDecoderLayer", "GradientCheckpointingLayer"},
    {"GraniteDecoderLayer", "GradientCheckpointingLayer"},
    {"GraniteMoeHybridDecoderLayer", "GradientCheckpointingLayer"},
    {"HunYuanDenseV1DecoderLayer", "GradientCheckpointingLayer"},
    {"Lfm2DecoderLayer", "GradientCheckpointingLayer"},
    {"Lfm2MoeDecoderLayer", "GradientCheckpointingLayer"},
    {"Lfm2MoeExpertList", "ModuleList"},
    {"LlamaDecoderLayer", "GradientCheckpointingLayer"},
    {"Llama4Router", "Linear"},
    {"Llama4TextDecoderLayer", "GradientCheckpointingLayer"},
    {"MiniMaxM2DecoderLayer", "GradientCheckpointingLayer"},
    {"MinistralDecoderLayer", "GradientCheckpointingLayer"},
    {"Ministral3DecoderLayer", "GradientCheckpointingLayer"},
    {"MistralDecoderLayer", "GradientCheckpointingLayer"},
    {"MixtralDecoderLayer", "GradientCheckpointingLayer"},
    {"OPTDecoderLayer", "GradientCheckpointingLayer"},
    {"OPTLearnedPositionalEmbedding", "Embedding"},
    {"OlmoDecoderLayer", "GradientCheckpointingLayer"},
    {"Olmo2DecoderLayer", "GradientCheckpointingLayer"},
    {"Olmo3DecoderLayer", "GradientCheckpointingLayer"},
    {"OlmoeDecoderLayer", "GradientCheckpointingLayer"},
    {"PhiDecoderLayer", "GradientCheckpointingLayer"},
    {"Phi3DecoderLayer", "GradientCheckpointingLayer"},
    {"Qwen2DecoderLayer", "GradientCheckpointingLayer"},
    {"Qwen2MoeDecoderLayer", "GradientCheckpointingLayer"},
    {"Qwen3DecoderLayer", "GradientCheckpointingLayer"},
    {"Qwen3MoeDecoderLayer", "GradientCheckpointingLayer"},
    {"ReLU6", "Hardtanh"},
    {"RobertaLayer", "GradientCheckpointingLayer"},
    {"RobertaSdpaSelfAttention", "RobertaSelfAttention"},
    {"SeedOssDecoderLayer", "GradientCheckpointingLayer"},
    {"SmolLM3DecoderLayer", "GradientCheckpointingLayer"},
    {"StableLmSdpaAttention", "StableLmAttention"},
    {"StableLmDecoderLayer", "GradientCheckpointingLayer"},
    {"Starcoder2DecoderLayer", "GradientCheckpointingLayer"},
    {"T5Block", "GradientCheckpointingLayer"},
};

/// Models that no config names, but others hold.
constexpr std::string_view inner_models[] = {"OPTDecoder", "T5Stack"};

/// What all classes of a family begin with: "GPT2", "T5".
std::string_view common_prefix(const ModelFamily& family) {
  std::string_view prefix = family.classes.front();
  for (const std::string_view name : family.classes) {
    const auto end = std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end()).first;
    prefix = prefix.substr(0, static_cast<std::size_t>(end - prefix.begin()));
  }
  return prefix;
}

bool is_model(const ModelFamily& family, std::string_view class_name) {
  const auto holds = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), class_name) != std::end(names);
  };
  return holds(family.classes) || holds(inner_models);
}

}  // namespace

std::vector<std::string> module_class_bases(const Model& model, std::string_view class_name) {
  for (const auto& [name, base] : single_bases)
    if (name == class_name) return {std::string(base)};
  const ModelFamily* family = find_family(model.family);
  if (!family || !is_model(*family, class_name)) return {};
  return {std::string(common_prefix(*family)) + "PreTrainedModel", "PreTrainedModel"};
}

}  // namespace shardscope
