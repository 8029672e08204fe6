#include "traces/import/analysis_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/format/json_reader.h"

namespace shardscope {
namespace {

std::string text_or_any(const JsonValue& rule, std::string_view key) {
  const auto value = rule.find(key);
  return value ? value->string() : std::string();
}

MemoryCategory category_at(const JsonValue& rule) {
  const JsonValue value = rule.at("category");
  std::string known;
  for (const MemoryCategory category : memory_categories) {
    if (value.string() == name_of(category)) return category;
    known += (known.empty() ? "" : ", ") + std::string(name_of(category));
  }
  throw value.error("not a category of memory", known);
}

FrameRules frame_rules_of(const JsonValue& list) {
  FrameRules rules;
  for (const JsonValue& rule : list.elements()) {
    rule.only_keys({"file", "function", "category"});
    rules.push_back({.file = text_or_any(rule, "file"),
                     .function = text_or_any(rule, "function"),
                     .category = category_at(rule)});
  }
  return rules;
}

AnalysisRules rules_of(const JsonValue& json, Definitions definitions) {
  AnalysisRules rules = analysis_rules(definitions);
  if (json.is_array()) {
    rules.events = class_rules_of(json);
    return rules;
  }
  json.only_keys({"events", "memory"});
  if (const auto events = json.find("events")) rules.events = class_rules_of(*events);
  if (const auto memory = json.find("memory")) rules.memory = frame_rules_of(*memory);
  return rules;
}

}  // namespace

AnalysisRules analysis_rules(Definitions definitions) {
  return {.events = class_rules(definitions), .memory = frame_rules()};
}

AnalysisRules read_analysis_rules(const std::filesystem::path& path, Definitions definitions) {
  return rules_of(JsonValue::read_file(path), definitions);
}

AnalysisRules parse_analysis_rules(std::string_view text, std::string_view file_name,
                                   Definitions definitions) {
  return rules_of(JsonValue::parse(text, file_name), definitions);
}

std::string to_json(const AnalysisRules& rules) {
  using Json = nlohmann::ordered_json;
  Json memory = Json::array();
  for (const FrameRule& rule : rules.memory) {
    memory.push_back(
        {{"file", rule.file}, {"function", rule.function}, {"category", name_of(rule.category)}});
  }
  const Json json{{"events", Json::parse(to_json(rules.events))}, {"memory", memory}};
  return json.dump(1) + "\n";
}

}  // namespace shardscope
