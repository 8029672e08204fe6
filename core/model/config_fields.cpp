#include "core/model/config_fields.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace shardscope {

std::string ConfigFields::text(std::string_view key) const {
  const auto found = fields_.find(key);
  return found == fields_.end() ? "null" : found->second;
}

std::int64_t ConfigFields::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  return JsonValue::parse(text(key), key).integer(min, max);
}

void ConfigFields::set(std::string_view key, std::string json) {
  fields_.insert_or_assign(std::string(key), std::move(json));
}

void ConfigFields::set(std::string_view key, const JsonValue& value) {
  set(key, nlohmann::json::parse(value.dump()).dump());
}

void ConfigFields::erase(std::string_view key) {
  if (const auto found = fields_.find(key); found != fields_.end()) fields_.erase(found);
}

void ConfigFields::set_where_null(std::string_view key, std::string json) {
  if (is_null(key)) set(key, std::move(json));
}

void ConfigFields::set_where_missing(std::string_view key, std::string json) {
  if (!has(key)) set(key, std::move(json));
}

std::string ConfigFields::object_text() const {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [key, text] : fields_) object[key] = nlohmann::json::parse(text);
  return object.dump();
}

}  // namespace shardscope
