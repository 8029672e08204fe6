#include "tests/recordings/configs_plain.h"

#include <cmath>

#include "core/format/python_text.h"

namespace shardscope::recordings {

using Json = nlohmann::ordered_json;

Json plain(const ConfigValue& value) {
  if (value.is_null()) return nullptr;
  if (value.is_boolean()) return value.boolean();
  if (value.is_integer()) return value.integer();
  if (value.big_integer() != nullptr) return Json::parse(value.big_integer()->digits);
  if (value.is_double()) {
    if (!std::isfinite(value.number())) return python_float(value.number());
    return value.number();
  }
  if (value.is_list()) {
    Json list = Json::array();
    for (const ConfigValue& element : value.elements()) list.push_back(plain(element));
    return list;
  }
  if (value.is_dict()) {
    Json dict = Json::object();
    for (const ConfigValue::Entry& entry : value.entries()) dict[entry.key] = plain(entry.value);
    return dict;
  }
  return value.str();
}

ConfigValue config_value(const Json& recorded) {
  if (recorded.is_null()) return {};
  if (recorded.is_boolean()) return recorded.get<bool>();
  if (recorded.is_number_unsigned() &&
      recorded.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return BigInteger{recorded.dump()};
  if (recorded.is_number_integer()) return recorded.get<std::int64_t>();
  if (recorded.is_number()) return recorded.get<double>();
  if (recorded.is_string()) return recorded.get<std::string>();
  if (recorded.is_array()) {
    ConfigValue::List list;
    for (const Json& element : recorded) list.push_back(config_value(element));
    return ConfigValue(std::move(list));
  }
  ConfigValue dict = ConfigValue::dict();
  for (const auto& [key, element] : recorded.items()) dict.set(key, config_value(element));
  return dict;
}

}  // namespace shardscope::recordings
