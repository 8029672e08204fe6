#include "core/model/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/model/family.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;
using Fields = std::map<std::string, Json>;

constexpr const char* written_version = "5.23.0";  // the transformers whose files these are like
constexpr int indent = 2;

/// What PreTrainedConfig itself has: written only where it differs.
const Json& common_defaults() {
  static const Json defaults = Json::parse(R"({"return_dict": true, "output_hidden_states": false,
    "output_attentions": false, "chunk_size_feed_forward": 0, "is_encoder_decoder": false, "problem_type": null,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}})");
  return defaults;
}

/// With sorted keys at every level.
Json sorted(const JsonValue& value) { return Json(nlohmann::json::parse(value.dump())); }

Json default_or(const Fields& fields, const char* key) {
  const auto found = fields.find(key);
  return found == fields.end() ? Json() : found->second;
}

std::string canonical(const ModelFamily& family, const std::string& key) {
  for (const auto& [alias, name] : family.config_aliases)
    if (key == alias) return std::string(name);
  return key;
}

bool is_written_otherwise(std::string_view key) {
  constexpr std::string_view keys[] = {"_name_or_path", "torch_dtype", "dtype", "num_labels"};
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

Fields merged(const JsonValue& config, const ModelFamily& family) {
  Fields fields;
  for (const auto& [key, value] : defaults_of(family).members()) fields[key] = sorted(value);
  for (const auto& [key, value] : config.members()) {
    if (is_written_otherwise(key)) continue;
    Json json = sorted(value);
    if (common_defaults().contains(key) && common_defaults().at(key) == json) continue;
    fields[canonical(family, key)] = std::move(json);
  }
  return fields;
}

/// num_labels becomes the two tables; two labels are the default, which is not written.
void write_labels(const JsonValue& config, Fields& fields) {
  constexpr std::int64_t default_labels = 2, most_labels = 1 << 20;
  const auto count = config.find("num_labels");
  if (!count || fields.contains("id2label")) return;
  const std::int64_t labels = count->integer(1, most_labels);
  if (labels == default_labels) return;
  Json names = Json::object();
  nlohmann::json ids = nlohmann::json::object();
  for (std::int64_t i = 0; i < labels; ++i) {
    const std::string label = fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = label;
    ids[label] = i;
  }
  fields["id2label"] = names;
  fields["label2id"] = Json(ids);
}

/// The two keys of Llama's config class that follow from others.
void fill_derived(Fields& fields) {
  if (fields.contains("head_dim") && fields["head_dim"].is_null())
    fields["head_dim"] = fields["hidden_size"].get<std::int64_t>() /
                         fields["num_attention_heads"].get<std::int64_t>();
  if (fields.contains("num_key_value_heads") && fields["num_key_value_heads"].is_null())
    fields["num_key_value_heads"] = fields["num_attention_heads"];
}

void set_default(Json& object, const char* key, const Json& value) {
  if (!object.contains(key)) object[key] = value;
}

/// transformers 5.23, modeling_rope_utils.py: convert_rope_params_to_dict, standardize_rope_params.
void fold_rope(Fields& fields) {
  if (!fields.contains("rope_parameters")) return;
  const Json scaling = default_or(fields, "rope_scaling");
  Json rope = scaling.is_object() && !scaling.empty() ? scaling : fields["rope_parameters"];
  if (!rope.is_object()) rope = Json::object();
  const Json theta = default_or(fields, "rope_theta");
  const Json partial = default_or(fields, "partial_rotary_factor");
  set_default(rope, "rope_theta", theta.is_null() ? Json(10000.0) : theta);
  if (!partial.is_null()) set_default(rope, "partial_rotary_factor", partial);
  set_default(rope, "rope_type", rope.value("type", "default"));
  const std::string type = rope["rope_type"].get<std::string>();
  if (type == "llama3" || type == "yarn" || type == "longrope") {
    constexpr const char* original = "original_max_position_embeddings";
    if (fields.contains(original))
      rope[original] = fields[original];
    else
      set_default(rope, original, fields["max_position_embeddings"]);
  }
  for (const char* key : {"rope_scaling", "rope_theta", "partial_rotary_factor"}) fields.erase(key);
  fields["rope_parameters"] = Json(nlohmann::json(rope));
}

std::string text_of(const Fields& fields) {
  Json json = Json::object();
  for (const auto& [key, value] : fields) json[key] = value;
  return json.dump(indent, ' ', true) + "\n";
}

const ModelFamily& family_of(const Model& model) { return *find_family(model.family); }

}  // namespace

std::string config_text(const JsonValue& config, const Model& model) {
  Fields fields = merged(config, family_of(model));
  write_labels(config, fields);
  fill_derived(fields);
  fold_rope(fields);
  fields["architectures"] = Json::array({model.class_name});
  fields["dtype"] = name_of(model.dtype);
  fields["model_type"] = model.family;
  fields["transformers_version"] = written_version;
  return text_of(fields);
}

std::string generation_config_text(const JsonValue& config, const Model& model) {
  const ModelFamily& family = family_of(model);
  if (model.class_name != family.default_class) return {};
  const Fields model_fields = merged(config, family);
  Fields fields{{"_from_model_config", true},
                {"output_attentions", false},
                {"output_hidden_states", false},
                {"transformers_version", written_version}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "use_cache"})
    if (const Json value = default_or(model_fields, key); !value.is_null()) fields[key] = value;
  return text_of(fields);
}

}  // namespace shardscope
