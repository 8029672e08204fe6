#include "core/config/yaml_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/config/config_json.h"
#include "core/config/yaml/resolver.h"

namespace shardscope {
namespace {

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

/// Whether a text may stand without quotes. Source: PyYAML 6.0.3 emitter.py, analyze_scalar.
bool may_be_plain(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  constexpr std::string_view indicators = "#,[]{}&*!|>'\"%@`";
  if (indicators.find(text.front()) != std::string_view::npos) return false;
  const bool lone = text.size() == 1 || text[1] == ' ';
  if ((text.front() == '-' || text.front() == '?' || text.front() == ':') && lone) return false;
  if (text.starts_with("---") || text.starts_with("...")) return false;
  return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos;
}

std::string scalar_text(const std::string& text) {
  if (has_control_character(text)) return json_text(ConfigValue(text));
  if (may_be_plain(text) && yaml::resolved_tag(text) == "tag:yaml.org,2002:str") return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

/// A float with the point or sign that YAML 1.1 wants: "1e-05" would be text, "1.0e-05" is none.
std::string float_text(const ConfigValue& value) {
  std::string text = value.repr();
  if (text == "inf" || text == "-inf" || text == "nan")
    return (text.front() == '-' ? "-." : ".") + text.substr(text.front() == '-' ? 1 : 0);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

std::string inline_text(const ConfigValue& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  if (value.is_double()) return float_text(value);
  if (value.is_string()) return scalar_text(value.string());
  if (value.is_list()) return "[]";
  if (value.is_dict()) return "{}";
  return value.str();
}

bool is_block(const ConfigValue& value) {
  return (value.is_dict() || value.is_list()) && value.size() > 0;
}

void write(const ConfigValue& value, std::size_t indent, std::string& out);

void write_list(const ConfigValue& list, std::size_t indent, std::string& out) {
  for (const ConfigValue& element : list.elements()) {
    const std::string margin(indent, ' ');
    if (!is_block(element)) {
      out += fmt::format("{}- {}\n", margin, inline_text(element));
      continue;
    }
    // The first line of the element stands behind the dash.
    std::string nested;
    write(element, indent + 2, nested);
    out += fmt::format("{}- {}", margin, nested.substr(indent + 2));
  }
}

void write(const ConfigValue& value, std::size_t indent, std::string& out) {
  if (value.is_list()) return write_list(value, indent, out);
  for (const ConfigValue::Entry& entry : value.entries()) {
    const std::string key = entry.key_type == "str" ? scalar_text(entry.key) : entry.key;
    const std::string start = std::string(indent, ' ') + key + ":";
    if (!is_block(entry.value)) {
      out += fmt::format("{} {}\n", start, inline_text(entry.value));
      continue;
    }
    out += start + "\n";
    write(entry.value, indent + (entry.value.is_list() ? 0 : 2), out);
  }
}

}  // namespace

std::string yaml_text(const ConfigValue& value) {
  if (!is_block(value)) return inline_text(value) + "\n";
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace shardscope
