#include "core/model/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/utf8.h"
#include "core/model/family.h"
#include "core/model/read_quantization.h"

namespace shardscope {
namespace {

std::vector<std::string_view> known_types() {
  std::vector<std::string_view> types;
  for (const ModelFamily& family : model_families()) types.push_back(family.model_type);
  return types;
}

/// A model of several parts, of which one makes text: none of them is predicted without a word.
[[noreturn]] void refuse_several_parts(const JsonValue& model_type, const JsonValue& text) {
  const auto inner = text.find("model_type");
  const std::string type = inner ? inner->string() : std::string();
  if (find_family(type))
    throw model_type.error(
        fmt::format(
            "model_type \"{}\" is a text model, {}, beside towers, which are not known here",
            shown(model_type.string()), type),
        "save the object under text_config as a config.json of its own to predict the text model "
        "alone; examples/pytorch/export_model.py exports the whole (docs/own_models.md)");
  throw model_type.error(
      fmt::format("model_type \"{}\" is a text model beside towers, which are not known here",
                  shown(model_type.string())),
      "examples/pytorch/export_model.py exports it (docs/own_models.md)");
}

const ModelFamily& family_of_type(const JsonValue& config, const JsonValue& model_type) {
  const std::string name = model_type.string();
  if (const ModelFamily* family = find_family(name)) return *family;
  if (const auto text = config.find("text_config"); text && text->is_object())
    refuse_several_parts(model_type, *text);
  throw model_type.error(
      fmt::format("unknown model_type \"{}\"", shown(name)),
      fmt::format("known are {}; examples/pytorch/export_model.py exports any other",
                  fmt::join(known_types(), ", ")));
}

bool builds(const ModelFamily& family, std::string_view class_name) {
  return std::find(family.classes.begin(), family.classes.end(), class_name) !=
         family.classes.end();
}

const ModelFamily& family_of_class(const JsonValue& config, std::string_view class_name) {
  for (const ModelFamily& family : model_families())
    if (builds(family, class_name)) return family;
  throw config.error("the key \"model_type\" is missing",
                     fmt::format("known are {}", fmt::join(known_types(), ", ")));
}

/// architectures[0], where the file names one.
std::optional<JsonValue> architecture_of(const JsonValue& config) {
  const auto architectures = config.find("architectures");
  if (!architectures || architectures->size() == 0) return std::nullopt;
  return (*architectures)[0];
}

Dtype dtype_of(const JsonValue& config) {
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto value = config.find(key)) return parse_dtype(value->string(), value->where());
  return Dtype::float32;
}

/// Of the parameters outside such parts.
Dtype outer_dtype(const JsonValue& config, const ModelOptions& options) {
  if (options.constructor) return Dtype::float32;
  return options.dtype ? *options.dtype : dtype_of(config);
}

/// Source: configuration_utils.py of each release.
void check_problem_type(const JsonValue& config, const ConfigReader& reader) {
  constexpr std::string_view known[] = {"multi_label_classification", "regression",
                                        "single_label_classification"};
  const auto type = config.find("problem_type");
  if (!type) return;
  const std::string name = type->string();
  const bool newer = reader.version() == TransformersVersion::v5;
  if (!newer && std::find(std::begin(known), std::end(known), name) == std::end(known))
    throw type->error(fmt::format("unknown problem_type \"{}\"", shown(name)),
                      fmt::format("known are {}", fmt::join(known, ", ")));
  if (newer && name == "single_label_classification" && reader.labels() == 1)
    throw type->error("single_label_classification with one label",
                      "give num_labels 2, or problem_type regression");
}

/// A key of other model types, or of tools that change a model, and what it does to memory.
struct ForeignKey {
  std::string_view key;
  std::string_view effect;
};
constexpr ForeignKey foreign_keys[] = {
    {"quantization_config", "quantised weights"},
    {"compression_config", "compressed weights"},
    {"num_local_experts", "experts"},
    {"num_experts", "experts"},
    {"n_routed_experts", "experts"},
    {"moe_intermediate_size", "experts"},
    {"kv_lora_rank", "low-rank attention"},
    {"num_nextn_predict_layers", "layers that predict further tokens"},
    {"num_kv_shared_layers", "shared keys and values"},
    {"vision_config", "a vision tower"},
    {"audio_config", "an audio tower"},
    {"cross_attention_layers", "cross-attention layers"}};

bool says_something(const JsonValue& value) {
  if (value.is_object()) return value.size() > 0;
  return !value.is_integer() || value.integer() > 0;
}

/// Whether the family's config class takes the key, under that name or as another one's.
bool takes(const ConfigReader& reader, std::string_view model_type, std::string_view key) {
  if (reader.declares(key)) return true;
  const ModelFamily* family = find_family(model_type);
  if (!family || (family->aliases_from_5 && reader.version() == TransformersVersion::v4))
    return false;
  const auto& aliases = family->config_aliases;
  return std::any_of(aliases.begin(), aliases.end(),
                     [&](const auto& alias) { return alias.first == key; });
}

/// transformers makes mxfp4's weights whole where they are to be trained.
bool is_made_whole(const JsonValue& config, std::string_view model_type) {
  const auto given = config.find("quantization_config");
  const auto method = given && given->is_object() ? given->find("quant_method") : std::nullopt;
  return model_type == "gpt_oss" && method && method->string() == "mxfp4";
}

/// Throws Error where the quantisation is of a kind that is not known.
bool reads_quantization(const JsonValue& config, const ModelOptions& options) {
  return options.quantized_base && read_quantization(config).has_value();
}

/// What a family's rules do not know must not be left out of the figures without a word.
void check_foreign_keys(const JsonValue& config, const ConfigReader& reader,
                        std::string_view model_type, const ModelOptions& options) {
  for (const ForeignKey& foreign : foreign_keys) {
    const auto value = config.find(foreign.key);
    if (value && foreign.key == "quantization_config" &&
        (is_made_whole(config, model_type) || reads_quantization(config, options)))
      continue;
    if (!value || takes(reader, model_type, foreign.key) || !says_something(*value)) continue;
    throw value->error(
        fmt::format("{} of model_type {} are not simulated", foreign.effect, model_type),
        fmt::format("remove \"{}\" to simulate the model without them", foreign.key));
  }
  // Of the classes here BERT's alone run their feed-forward in chunks.
  if (const auto chunk = config.find("chunk_size_feed_forward");
      chunk && chunk->is_integer() && chunk->integer() > 0 &&
      (model_type == "bert" || model_type == "roberta"))
    throw chunk->error("a feed-forward in chunks is not simulated", "write 0");
  if (const auto pruned = config.find("pruned_heads");
      pruned && pruned->is_object() && pruned->size() > 0)
    throw pruned->error("pruned heads are not simulated", "remove the key");
}

}  // namespace

Model model_of_config(const JsonValue& config, const ModelOptions& options) {
  const auto architecture = architecture_of(config);
  std::string class_name = options.class_name;
  if (class_name.empty() && architecture) class_name = architecture->string();
  const auto model_type = config.find("model_type");
  const ModelFamily& family =
      model_type ? family_of_type(config, *model_type) : family_of_class(config, class_name);
  if (class_name.empty()) class_name = family.default_class;
  if (!builds(family, class_name))
    throw(architecture && options.class_name.empty() ? *architecture : config)
        .error(fmt::format("unknown architecture \"{}\" of model_type {}", shown(class_name),
                           family.model_type),
               fmt::format("known are {}", fmt::join(family.classes, ", ")));
  Model model{.family = std::string(family.model_type),
              .class_name = class_name,
              .transformers = options.transformers,
              .dtype = outer_dtype(config, options)};
  ConfigReader reader(config, defaults_of(family, options.transformers), options.transformers);
  if (options.constructor) reader.build_parts_in(dtype_of(config));
  check_problem_type(config, reader);
  check_foreign_keys(config, reader, family.model_type, options);
  if (is_made_whole(config, family.model_type))
    model.assumed.emplace_back(
        "mxfp4 weights are dequantised when they are loaded: transformers trains them whole");
  family.build(reader, model);
  check_size(model, config.where());
  return model;
}

std::string attention_of_config(const JsonValue& config) {
  for (const char* key : {"attn_implementation", "_attn_implementation"}) {
    auto value = config.find(key);
    // Of a model of several parts; "" is the whole.
    if (value && value->is_object()) value = value->find("");
    if (!value) continue;
    const std::string name = value->string();
    if (name == "eager" || name == "sdpa" || name.starts_with("flash_attention")) return name;
    throw value->error(fmt::format("attention by \"{}\" is not simulated", shown(name)),
                       "write eager or sdpa, or give --attention");
  }
  return {};
}

void refuse_attention_weights(const JsonValue& config) {
  const auto value = config.find("output_attentions");
  if (value && value->is_boolean() && value->boolean())
    throw value->error("attention that returns its weights is not simulated", "write false");
}

std::filesystem::path config_path(const std::filesystem::path& folder_or_config) {
  std::error_code ignored;
  return std::filesystem::is_directory(folder_or_config, ignored) ? folder_or_config / "config.json"
                                                                  : folder_or_config;
}

}  // namespace shardscope
