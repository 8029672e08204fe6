#include "core/model/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/model/config_defaults.h"
#include "core/model/family.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr int indent = 2;
constexpr std::int64_t default_labels = 2, most_labels = 1 << 20;

/// The release whose files these are like.
std::string_view release_of(TransformersVersion version) {
  return version == TransformersVersion::v4 ? "4.57.6" : "5.23.0";
}

/// The defaults of a config class and of its base.
ConfigFields defaults_together(const ModelFamily& family, TransformersVersion version) {
  ConfigFields fields;
  for (const auto& [key, value] : common_config_defaults(version).members()) fields.set(key, value);
  for (const auto& [key, value] : defaults_of(family, version).members()) fields.set(key, value);
  return fields;
}

/// The same, put together once: each recording of a training asks for them.
const ConfigFields& class_defaults(const ModelFamily& family, TransformersVersion version) {
  static std::mutex mutex;
  static std::map<std::pair<const ModelFamily*, TransformersVersion>, ConfigFields> known;
  const std::scoped_lock lock(mutex);
  const std::pair key(&family, version);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, defaults_together(family, version)).first->second;
}

/// What all config classes have.
const ConfigFields& common_defaults(TransformersVersion version) {
  static std::mutex mutex;
  static std::map<TransformersVersion, ConfigFields> known;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace(version);
  if (is_new)
    for (const auto& [key, value] : common_config_defaults(version).members())
      found->second.set(key, value);
  return found->second;
}

std::string_view canonical(const ModelFamily& family, std::string_view key) {
  for (const auto& [alias, name] : family.config_aliases)
    if (key == alias) return name;
  return key;
}

/// Fields of the class, which it then completes.
void set_declared(const JsonValue& config, const ModelFamily& family, TransformersVersion version,
                  ConfigFields& fields) {
  for (const auto& [key, value] : config.members())
    if (fields.has(key)) fields.set(key, value);
  if (family.complete) family.complete(fields, version);
}

/// All others: a field under another name is set after the class's own, and wins.
void set_others(const JsonValue& config, const ModelFamily& family, const ConfigFields& declared,
                TransformersVersion version, ConfigFields& fields) {
  const bool aliased = version == TransformersVersion::v5 || !family.aliases_from_5;
  for (const auto& [key, value] : config.members())
    if (!declared.has(key) && !is_dropped_key(key, version))
      fields.set(aliased ? canonical(family, key) : key, value);
}

void set_labels(std::int64_t labels, ConfigFields& fields) {
  Json names = Json::object();
  nlohmann::json ids = nlohmann::json::object();
  for (std::int64_t i = 0; i < labels; ++i) {
    const std::string label = fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = label;
    ids[label] = i;
  }
  fields.set("id2label", names.dump());
  fields.set("label2id", ids.dump());
}

/// In the order of the numbers, as Python sorts them.
std::string numbered(const JsonValue& names) {
  std::map<std::int64_t, Json> by_number;
  for (const auto& [key, value] : names.members())
    by_number[JsonValue::parse(key, names.where()).integer()] = Json::parse(value.dump());
  Json object = Json::object();
  for (const auto& [number, name] : by_number) object[std::to_string(number)] = name;
  return object.dump();
}

/// id2label and num_labels: transformers 4 believes the first, 5 the second.
void complete_labels(const JsonValue& config, TransformersVersion version, ConfigFields& fields) {
  const auto names = config.find("id2label");
  const auto count = config.find("num_labels");
  const std::int64_t labels = count ? count->integer(1, most_labels) : default_labels;
  const bool differ = names && count && labels != static_cast<std::int64_t>(names->size());
  if (!names || (version == TransformersVersion::v5 && differ)) return set_labels(labels, fields);
  fields.set("id2label", numbered(*names));
  if (!config.has("label2id")) fields.set("label2id", "null");
}

void fold_rope(const JsonValue& config, const RopeKeys& keys, const ConfigFields& defaults,
               ConfigFields& fields) {
  const auto scaling = config.find("rope_scaling");
  const bool scaled = scaling && scaling->size() > 0;
  ConfigFields rope;
  auto given = scaled ? scaling : config.find("rope_parameters");
  if (!given && !defaults.is_null("rope_parameters"))  // of the config class (gpt-oss)
    given = JsonValue::parse(defaults.text("rope_parameters"), "rope_parameters");
  if (given)
    for (const auto& [key, value] : given->members()) rope.set(key, value);
  const auto fold = [&](std::string_view inner, std::string_view outer,
                        std::string_view otherwise) {
    const std::string value = config.has(outer) ? fields.text(outer) : std::string(otherwise);
    if (!value.empty()) rope.set_where_missing(inner, value);
    if (inner == "rope_theta" || !keys.keeps_partial) fields.erase(outer);
  };
  fold("rope_theta", keys.theta, keys.default_theta);
  fold("partial_rotary_factor", keys.partial, keys.default_partial);
  rope.set_where_missing("rope_type", rope.has("type") ? rope.text("type") : "\"default\"");
  const std::string type = rope.text("rope_type");
  if (type == "\"llama3\"" || type == "\"yarn\"" || type == "\"longrope\"") {
    constexpr std::string_view original = "original_max_position_embeddings";
    if (defaults.has(original))
      rope.set(original, fields.text(original));
    else
      rope.set_where_missing(original, fields.text("max_position_embeddings"));
  }
  if (keys.only_longrope && (type == "\"su\"" || type == "\"yarn\""))
    rope.set("rope_type", "\"longrope\"");
  fields.erase("rope_scaling");
  fields.set("rope_parameters", rope.object_text());
}

/// The config object as its class constructs it, and the model changes it.
ConfigFields constructed(const JsonValue& config, const ModelFamily& family, const Model& model) {
  const TransformersVersion version = model.transformers;
  const ConfigFields& defaults = class_defaults(family, version);
  ConfigFields fields = defaults;
  set_declared(config, family, version, fields);
  set_others(config, family, defaults, version, fields);
  complete_labels(config, version, fields);
  if (family.rope && version == TransformersVersion::v5)
    fold_rope(config, *family.rope, defaults, fields);
  if (family.construct) family.construct(fields, model);
  return fields;
}

/// to_diff_dict: what is as in every config, and in a fresh one of the class, is not written.
bool is_written(std::string_view key, const std::string& text, const ConfigFields& common,
                const ConfigFields& defaults) {
  if (!common.has(key)) return true;
  const auto differs = [&](const ConfigFields& from) {
    return nlohmann::json::parse(text) != nlohmann::json::parse(from.text(key));
  };
  return differs(common) || differs(defaults);
}

std::string text_of(const ConfigFields& fields) {
  Json json = Json::object();
  for (const auto& [key, value] : fields.all()) json[key] = Json::parse(value);
  return json.dump(indent, ' ', true) + "\n";
}

const ModelFamily& family_of(const Model& model) { return *find_family(model.family); }

std::string in_quotes(std::string_view text) { return Json(text).dump(); }

}  // namespace

std::string config_text(const JsonValue& config, const Model& model) {
  const ModelFamily& family = family_of(model);
  const ConfigFields& defaults = class_defaults(family, model.transformers);
  const ConfigFields& common = common_defaults(model.transformers);
  const ConfigFields fields = constructed(config, family, model);
  ConfigFields written;
  for (const auto& [key, text] : fields.all())
    if (is_written(key, text, common, defaults)) written.set(key, text);
  written.set("architectures", Json::array({model.class_name}).dump());
  written.set("dtype", in_quotes(name_of(model.dtype)));
  written.set("model_type", in_quotes(model.family));
  written.set("transformers_version", in_quotes(release_of(model.transformers)));
  return text_of(written);
}

std::string generation_config_text(const JsonValue& config, const Model& model) {
  const ModelFamily& family = family_of(model);
  const auto& classes = family.generating_classes;
  if (std::find(classes.begin(), classes.end(), model.class_name) == classes.end()) return {};
  const ConfigFields fields = constructed(config, family, model);
  ConfigFields written;
  written.set("_from_model_config", "true");
  if (model.transformers == TransformersVersion::v5) {
    written.set("output_attentions", "false");
    written.set("output_hidden_states", "false");
  }
  written.set("transformers_version", in_quotes(release_of(model.transformers)));
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "use_cache"})
    if (!fields.is_null(key)) written.set(key, fields.text(key));
  return text_of(written);
}

}  // namespace shardscope
