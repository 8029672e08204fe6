#include "core/config/toml/toml_reader.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <sstream>
#include <type_traits>

#include "core/base/error.h"

namespace shardscope {
namespace {

int line_of(const toml::source_region& region) { return static_cast<int>(region.begin.line); }

ConfigValue value_of(const toml::node& node);

ConfigValue dict_of(const toml::table& table) {
  ConfigValue dict = ConfigValue::dict();
  for (const auto& [key, node] : table) {
    dict.set(key.str(), value_of(node));
    dict.entries().back().line = line_of(key.source());
  }
  return dict;
}

ConfigValue list_of(const toml::array& array) {
  ConfigValue::List list;
  for (const toml::node& node : array) list.push_back(value_of(node));
  return list;
}

template <class Value>
std::string text_of(const Value& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

ConfigValue value_of(const toml::node& node) {
  ConfigValue value = node.visit([](const auto& typed) -> ConfigValue {
    using Node = std::decay_t<decltype(typed)>;
    if constexpr (std::is_same_v<Node, toml::table>)
      return dict_of(typed);
    else if constexpr (std::is_same_v<Node, toml::array>)
      return list_of(typed);
    else if constexpr (std::is_same_v<Node, toml::value<bool>> ||
                       std::is_same_v<Node, toml::value<std::int64_t>> ||
                       std::is_same_v<Node, toml::value<double>> ||
                       std::is_same_v<Node, toml::value<std::string>>)
      return ConfigValue(typed.get());
    else
      return ConfigValue(text_of(typed.get()));
  });
  value.set_line(line_of(node.source()));
  return value;
}

}  // namespace

ConfigValue read_toml(std::string_view text, const std::string& file) try {
  return dict_of(toml::parse(text, file));
} catch (const toml::parse_error& error) {
  throw Error({.where = fmt::format("{}:{}", file, line_of(error.source())),
               .what = fmt::format("is not TOML: {}", error.description()),
               .way_out = "mend the line"});
}

}  // namespace shardscope
