#include "core/model/config_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_layers = 4096;

/// Source: configuration_utils.py, ALLOWED_LAYER_TYPES; those of decoders without recurrence.
constexpr std::string_view layer_types[] = {"full_attention", "sliding_attention",
                                            "chunked_attention"};

}  // namespace

void fill_layer_types(ConfigFields& fields, const std::function<bool(std::int64_t)>& slides) {
  if (!fields.is_null("layer_types")) return;
  nlohmann::json types = nlohmann::json::array();
  const std::int64_t layers = fields.integer("num_hidden_layers", 0, most_layers);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    types.push_back(slides(layer) ? "sliding_attention" : "full_attention");
  fields.set("layer_types", types.dump());
}

std::vector<std::string> layer_types_of(const ConfigReader& config,
                                        const std::function<bool(std::int64_t)>& slides) {
  std::set<std::string> types;
  if (const auto given = config.find("layer_types")) {
    for (const JsonValue& type : given->elements()) {
      const std::string name = type.string() == "attention" ? "full_attention" : type.string();
      if (name != "full_attention" && name != "sliding_attention")
        throw type.error(fmt::format("rotary embeddings of \"{}\" are not known", shown(name)));
      types.insert(name);
    }
    return {types.begin(), types.end()};
  }
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  for (std::int64_t layer = 0; layer < layers; ++layer)
    types.insert(slides(layer) ? "sliding_attention" : "full_attention");
  return {types.begin(), types.end()};
}

namespace {

nlohmann::json theta_of(const ConfigFields& fields, const ThetaRule& rule) {
  const bool given = !rule.key.empty() && !fields.is_null(rule.key);
  return nlohmann::json::parse(given ? fields.text(rule.key) : std::string(rule.otherwise));
}

}  // namespace

void fill_rope_by_type(ConfigFields& fields, const ThetaRule& full, const ThetaRule& sliding) {
  nlohmann::json rope = nlohmann::json::parse(fields.text("rope_parameters"));
  if (!rope.is_object()) rope = nlohmann::json::object();
  for (const char* type : {"full_attention", "sliding_attention"})
    if (!rope[type].is_object()) rope[type] = {{"rope_type", "default"}};
  const nlohmann::json scaling = nlohmann::json::parse(fields.text("rope_scaling"));
  if (scaling.is_object()) rope["full_attention"].update(scaling);
  const auto set_where_missing = [&](const char* type, const ThetaRule& rule) {
    if (!rope[type].contains("rope_theta")) rope[type]["rope_theta"] = theta_of(fields, rule);
  };
  set_where_missing("full_attention", full);
  set_where_missing("sliding_attention", sliding);
  fields.erase("rope_scaling");
  for (const ThetaRule& rule : {full, sliding}) fields.erase(rule.key);
  fields.set("rope_parameters", rope.dump());
}

void fill_head_dim(ConfigFields& fields) {
  if (!fields.is_null("head_dim")) return;
  const std::int64_t heads = fields.integer("num_attention_heads", 1);
  fields.set("head_dim", std::to_string(fields.integer("hidden_size", 1) / heads));
}

void fill_key_value_heads(ConfigFields& fields) {
  fields.set_where_null("num_key_value_heads", fields.text("num_attention_heads"));
}

void fill_window_layers(ConfigFields& fields) {
  if (!fields.is_true("use_sliding_window")) fields.set("sliding_window", "null");
  const bool slides = !fields.is_null("sliding_window");
  const std::int64_t first = slides ? fields.integer("max_window_layers") : 0;
  fill_layer_types(fields, [&](std::int64_t layer) { return slides && layer >= first; });
}

void fill_alternating_layers(ConfigFields& fields) {
  fill_layer_types(fields, [](std::int64_t layer) { return layer % 2 == 0; });
}

void copy_rope_type(ConfigFields& fields) {
  if (fields.is_null("rope_scaling")) return;
  nlohmann::json scaling = nlohmann::json::parse(fields.text("rope_scaling"));
  if (!scaling.is_object() || !scaling.contains("type")) return;
  scaling["rope_type"] = scaling["type"];
  fields.set("rope_scaling", scaling.dump());
}

void rename_to_longrope(ConfigFields& fields) {
  if (fields.is_null("rope_scaling")) return;
  nlohmann::json scaling = nlohmann::json::parse(fields.text("rope_scaling"));
  if (!scaling.is_object() || !scaling.contains("type")) return;
  if (scaling["type"] == "su" || scaling["type"] == "yarn") scaling["type"] = "longrope";
  fields.set("rope_scaling", scaling.dump());
}

void check_rope_parameters(const ConfigReader& config) {
  const auto rope = config.find("rope_parameters");
  if (!rope) return;
  for (const auto& [type, parameters] : rope->members())
    if (!parameters.is_null()) parameters.members();
}

void check_layer_types(const ConfigReader& config, std::string_view further_type) {
  const auto types = config.find("layer_types");
  if (!types) return;
  for (const JsonValue& type : types->elements()) {
    const std::string name = type.string();
    // An older name of full attention: configuration_utils.py, "attention": "full_attention".
    const bool older = name == "attention" && config.version() == TransformersVersion::v5;
    if (older || (!further_type.empty() && name == further_type)) continue;
    if (std::find(std::begin(layer_types), std::end(layer_types), name) == std::end(layer_types))
      throw type.error(fmt::format("unknown layer type \"{}\"", shown(name)),
                       fmt::format("known are {}", fmt::join(layer_types, ", ")));
  }
  const std::int64_t layers = config.layers({"num_hidden_layers"});
  if (static_cast<std::int64_t>(types->size()) != layers)
    throw types->error(
        fmt::format("has {} entries, num_hidden_layers is {}", types->size(), layers));
}

std::string why_windowed(const ConfigReader& config) {
  const auto given = config.find("layer_types");
  if (given) {
    for (const JsonValue& type : given->elements())
      if (type.string() != "full_attention") return "layers of type " + type.string();
    return {};
  }
  const auto window = config.find("sliding_window");
  const bool slides = config.flag("use_sliding_window") && window &&
                      config.layers({"num_hidden_layers"}) > config.integer("max_window_layers");
  return slides ? fmt::format("sliding window, {} tokens", window->dump()) : std::string();
}

}  // namespace shardscope
