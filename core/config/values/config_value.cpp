#include "core/config/values/config_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/format/python_text.h"

namespace shardscope {

ConfigValue::ConfigValue() = default;
ConfigValue::ConfigValue(bool value) : value_(value) {}
ConfigValue::ConfigValue(int value) : value_(std::int64_t{value}) {}
ConfigValue::ConfigValue(std::int64_t value) : value_(value) {}
ConfigValue::ConfigValue(double value) : value_(value) {}
ConfigValue::ConfigValue(BigInteger value) : value_(std::move(value)) {}
ConfigValue::ConfigValue(PythonObject value) : value_(std::move(value)) {}
ConfigValue::ConfigValue(std::string value) : value_(std::move(value)) {}
ConfigValue::ConfigValue(std::string_view value) : value_(std::string(value)) {}
ConfigValue::ConfigValue(const char* value) : value_(std::string(value)) {}
ConfigValue::ConfigValue(List value) : value_(std::move(value)) {}
ConfigValue::ConfigValue(const ConfigValue&) = default;
ConfigValue::ConfigValue(ConfigValue&&) noexcept = default;
ConfigValue& ConfigValue::operator=(const ConfigValue&) = default;
ConfigValue& ConfigValue::operator=(ConfigValue&&) noexcept = default;
ConfigValue::~ConfigValue() = default;

ConfigValue ConfigValue::dict(std::initializer_list<std::pair<std::string, ConfigValue>> entries) {
  ConfigValue result;
  std::vector<Entry> own;
  own.reserve(entries.size());
  for (const auto& [key, value] : entries)
    own.push_back({.key = key, .line = value.line(), .value = value});
  result.value_ = std::move(own);
  return result;
}

ConfigValue ConfigValue::list(std::initializer_list<ConfigValue> elements) {
  return ConfigValue(List(elements));
}

bool ConfigValue::is_number() const {
  return is_boolean() || is_integer() || is_double() || holds<BigInteger>();
}
bool ConfigValue::is_list() const { return holds<List>(); }
bool ConfigValue::is_dict() const { return holds<std::vector<Entry>>(); }

std::string ConfigValue::expected(std::string_view what) const {
  return fmt::format("{}expected {}, got {}", line_ > 0 ? fmt::format("line {}: ", line_) : "",
                     what, is_list() || is_dict() ? "a " + type_name() : shown(repr(), 40));
}

bool ConfigValue::boolean() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  throw Error({{}, expected("true or false"), {}});
}

std::int64_t ConfigValue::integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  if (is_boolean()) return boolean() ? 1 : 0;
  throw Error({{}, expected("an integer"), {}});
}

double ConfigValue::number() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const BigInteger* big = big_integer()) {
    double value = 0;
    const char* end = big->digits.data() + big->digits.size();
    if (std::from_chars(big->digits.data(), end, value).ec == std::errc()) return value;
    return big->digits.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  }
  if (is_number()) return static_cast<double>(integer());
  throw Error({{}, expected("a number"), {}});
}

const std::string& ConfigValue::string() const {
  if (const auto* value = std::get_if<std::string>(&value_)) return *value;
  throw Error({{}, expected("text"), {}});
}

const ConfigValue::List& ConfigValue::elements() const {
  if (const auto* value = std::get_if<List>(&value_)) return *value;
  throw Error({{}, expected("a list"), {}});
}
ConfigValue::List& ConfigValue::elements() {
  return const_cast<List&>(std::as_const(*this).elements());
}

const std::vector<ConfigValue::Entry>& ConfigValue::entries() const {
  if (const auto* value = std::get_if<std::vector<Entry>>(&value_)) return *value;
  throw Error({{}, expected("a mapping"), {}});
}
std::vector<ConfigValue::Entry>& ConfigValue::entries() {
  return const_cast<std::vector<Entry>&>(std::as_const(*this).entries());
}

const std::vector<DuplicateKey>& ConfigValue::duplicates() const { return duplicates_; }
void ConfigValue::add_duplicate(DuplicateKey duplicate) {
  duplicates_.push_back(std::move(duplicate));
}

const ConfigValue* ConfigValue::find(std::string_view key) const {
  const auto* own = std::get_if<std::vector<Entry>>(&value_);
  if (own == nullptr) return nullptr;
  for (const Entry& entry : *own)
    if (entry.key == key && entry.key_type == "str") return &entry.value;
  return nullptr;
}
ConfigValue* ConfigValue::find(std::string_view key) {
  return const_cast<ConfigValue*>(std::as_const(*this).find(key));
}

const ConfigValue& ConfigValue::at(std::string_view key) const {
  if (const ConfigValue* found = find(key)) return *found;
  throw Error({{}, expected(fmt::format("a mapping with the key \"{}\"", shown(key))), {}});
}

ConfigValue ConfigValue::get(std::string_view key) const {
  const ConfigValue* found = find(key);
  return found == nullptr ? ConfigValue() : *found;
}

ConfigValue& ConfigValue::set(std::string_view key, ConfigValue value) {
  if (is_null()) value_ = std::vector<Entry>();
  if (ConfigValue* found = find(key)) return *found = std::move(value);
  const int line = value.line();
  entries().push_back({.key = std::string(key), .line = line, .value = std::move(value)});
  return entries().back().value;
}

bool ConfigValue::erase(std::string_view key) {
  if (!is_dict()) return false;
  return std::erase_if(entries(), [&](const Entry& entry) {
           return entry.key == key && entry.key_type == "str";
         }) > 0;
}

std::size_t ConfigValue::size() const {
  if (is_list()) return elements().size();
  if (is_dict()) return entries().size();
  return is_string() ? string().size() : 0;
}

bool ConfigValue::truthy() const {
  if (is_null()) return false;
  if (is_boolean() || is_integer()) return integer() != 0;
  if (is_double()) return number() != 0;
  if (is_string() || is_list() || is_dict()) return size() > 0;
  return true;
}

std::string ConfigValue::type_name() const {
  constexpr const char* names[] = {"NoneType", "bool", "int", "int", "float", "str"};
  if (const PythonObject* other = object()) return other->type;
  if (is_list()) return "list";
  if (is_dict()) return "dict";
  return names[value_.index()];
}

std::string ConfigValue::str() const {
  if (is_string()) return string();
  if (const PythonObject* other = object()) return other->text;
  return repr();
}

std::string ConfigValue::repr() const {
  if (is_null()) return "None";
  if (is_boolean()) return boolean() ? "True" : "False";
  if (is_integer()) return fmt::format("{}", integer());
  if (const BigInteger* big = big_integer()) return big->digits;
  if (is_double()) return python_float(number());
  if (is_string()) return python_quoted(string());
  if (const PythonObject* other = object()) return other->repr;
  std::string text(1, is_list() ? '[' : '{');
  if (is_list()) {
    for (const ConfigValue& element : elements())
      text += (text.size() > 1 ? ", " : "") + element.repr();
    return text + "]";
  }
  for (const Entry& entry : entries())
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "",
                        entry.key_type == "str" ? python_quoted(entry.key) : entry.key,
                        entry.value.repr());
  return text + "}";
}

bool ConfigValue::operator==(const ConfigValue& other) const {
  if (is_number() && other.is_number()) {
    const bool exact = !is_double() && !other.is_double();
    if (exact && !big_integer() && !other.big_integer()) return integer() == other.integer();
    if (exact) return value_ == other.value_;
    return number() == other.number();
  }
  if (!is_dict() || !other.is_dict()) return value_ == other.value_;
  if (size() != other.size()) return false;
  const auto by_key = [](const Entry* a, const Entry* b) {
    return std::tie(a->key, a->key_type) < std::tie(b->key, b->key_type);
  };
  const auto sorted = [&](const std::vector<Entry>& own) {
    std::vector<const Entry*> result;
    for (const Entry& entry : own) result.push_back(&entry);
    std::sort(result.begin(), result.end(), by_key);
    return result;
  };
  const auto ours = sorted(entries());
  const auto theirs = sorted(other.entries());
  return std::equal(ours.begin(), ours.end(), theirs.begin(),
                    [](const Entry* a, const Entry* b) { return *a == *b; });
}

}  // namespace shardscope
