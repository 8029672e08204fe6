#include "core/config/yaml/yaml_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "core/base/utf8.h"
#include "core/config/yaml/document.h"
#include "core/config/yaml/resolver.h"
#include "core/config/yaml/scalar_style.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

constexpr int best_width = 80;
constexpr int indent_step = 2;
constexpr std::size_t longest_simple_key = 128;

struct Scalar {
  std::string text;
  std::string tag;  ///< without the standard prefix
};

/// 1e-05 is no float in YAML 1.1; 1.0e-05 is.
std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  std::string text = python_float(value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

Scalar scalar_of(const ConfigValue& value) {
  if (value.is_null()) return {"null", "null"};
  if (value.is_boolean()) return {value.boolean() ? "true" : "false", "bool"};
  if (value.is_double()) return {float_text(value.number()), "float"};
  if (value.is_number()) return {value.repr(), "int"};
  if (value.type_name() == "date" || value.type_name() == "datetime")
    return {value.str(), "timestamp"};
  return {value.str(), "str"};
}

Scalar scalar_of_key(const ConfigValue::Entry& entry) {
  if (entry.key_type == "bool") return {lower_of(entry.key), "bool"};
  if (entry.key_type == "NoneType") return {"null", "null"};
  if (entry.key_type == "float") return scalar_of(ConfigValue(std::stod(entry.key)));
  return {entry.key, entry.key_type == "str" ? "str" : entry.key_type};
}

/// Python cannot compare keys of several types, and PyYAML then leaves them as they stand.
std::vector<const ConfigValue::Entry*> sorted_entries(const ConfigValue& dict) {
  std::vector<const ConfigValue::Entry*> entries;
  for (const ConfigValue::Entry& entry : dict.entries()) entries.push_back(&entry);
  const bool all_text = std::all_of(entries.begin(), entries.end(),
                                    [](const auto* entry) { return entry->key_type == "str"; });
  const bool all_integers = std::all_of(entries.begin(), entries.end(), [](const auto* entry) {
    return entry->key_type == "int" && entry->key.size() < 18;
  });
  if (all_text)
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->key < b->key; });
  else if (all_integers)
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return std::stoll(a->key) < std::stoll(b->key); });
  return entries;
}

/// Source: PyYAML 6.0.3 emitter.py, Emitter.
class Emitter {
 public:
  std::string write(const ConfigValue& value) {
    find_shared(value);
    node(value, false);
    if (!value.is_dict() && !value.is_list() && last_was_plain_) out_ += "\n...";
    return out_ + "\n";
  }

 private:
  /// Anchors are numbered by the order in which nodes come up a second time.
  void find_shared(const ConfigValue& value) {
    if (value.shared_node() != 0) {
      const auto [found, fresh] = anchors_.emplace(value.shared_node(), 0);
      if (!fresh) {
        if (found->second == 0) found->second = ++last_anchor_;
        return;
      }
    }
    if (value.is_list())
      for (const ConfigValue& element : value.elements()) find_shared(element);
    if (value.is_dict())
      for (const ConfigValue::Entry* entry : sorted_entries(value)) find_shared(entry->value);
  }

  /// True: an alias was written in the value's place.
  bool anchor_or_alias(const ConfigValue& value) {
    const auto found = anchors_.find(value.shared_node());
    if (value.shared_node() == 0 || found == anchors_.end() || found->second == 0) return false;
    const bool is_alias = !anchored_.insert(value.shared_node()).second;
    indicator(fmt::format("{}id{:03}", is_alias ? '*' : '&', found->second));
    return is_alias;
  }

  void node(const ConfigValue& value, bool in_mapping) {
    if (anchor_or_alias(value)) return;
    if (value.is_list() && value.size() > 0) return sequence(value, in_mapping);
    if (value.is_dict() && value.size() > 0) return mapping(value);
    if (value.is_list()) return indicator("[]");
    if (value.is_dict()) return indicator("{}");
    scalar(scalar_of(value), false);
  }

  void sequence(const ConfigValue& value, bool in_mapping) {
    const int before = indent_;
    const bool indentless = in_mapping && !fresh_;
    if (indent_ < 0)
      indent_ = 0;
    else if (!indentless)
      indent_ += indent_step;
    for (const ConfigValue& element : value.elements()) {
      new_line();
      indicator("-");
      fresh_ = true;
      node(element, false);
    }
    indent_ = before;
  }

  void mapping(const ConfigValue& value) {
    const int before = indent_;
    indent_ = indent_ < 0 ? 0 : indent_ + indent_step;
    for (const ConfigValue::Entry* entry : sorted_entries(value)) {
      new_line();
      key(scalar_of_key(*entry));
      node(entry->value, true);
    }
    indent_ = before;
  }

  void key(const Scalar& name) {
    const std::u32string text = yaml::code_points(name.text);
    const yaml::ScalarAnalysis analysis = yaml::analyze_scalar(text);
    // PyYAML counts the tag that it leaves out, "!!str".
    const std::size_t length = text.size() + 2 + name.tag.size();
    if (length < longest_simple_key && !analysis.empty && !analysis.multiline) {
      scalar(name, true);
      put(":");
      return leave_fresh();
    }
    indicator("?");
    fresh_ = true;
    scalar(name, false);
    new_line();
    indicator(":");
    fresh_ = true;
  }

  void scalar(const Scalar& value, bool is_key) {
    const std::u32string text = yaml::code_points(value.text);
    const bool resolves =
        yaml::resolved_tag(value.text) == std::string(yaml::standard_tag) + value.tag;
    const yaml::ScalarStyle style =
        yaml::choose_style(yaml::analyze_scalar(text), resolves, is_key);
    last_was_plain_ = style == yaml::ScalarStyle::plain;
    const int before = indent_;
    indent_ = std::max(indent_, 0) + indent_step;
    if (style == yaml::ScalarStyle::plain)
      plain(text, !is_key);
    else if (style == yaml::ScalarStyle::single_quoted)
      single_quoted(text, !is_key);
    else
      double_quoted(text, !is_key);
    indent_ = before;
  }

  static std::string utf8(std::u32string_view text) {
    std::string result;
    for (const char32_t c : text) append_utf8(result, c);
    return result;
  }

  void put(std::string_view text) {
    out_ += text;
    column_ += static_cast<int>(text.size());
  }
  void put(std::u32string_view text) {
    out_ += utf8(text);
    column_ += static_cast<int>(text.size());
  }
  void leave_fresh() { white_ = fresh_ = false; }

  void indicator(std::string_view text) {
    if (!white_) put(" ");
    put(text);
    leave_fresh();
  }

  void line_break() {
    out_ += '\n';
    column_ = 0;
    white_ = fresh_ = true;
  }

  /// Goes to the indentation, in a new line unless it stands there already.
  void new_line() {
    const int indent = std::max(indent_, 0);
    if (!fresh_ || column_ > indent || (column_ == indent && !white_)) line_break();
    if (column_ >= indent) return;
    white_ = true;
    put(std::string(static_cast<std::size_t>(indent - column_), ' '));
  }

  static std::size_t run_of(std::u32string_view text, std::size_t from, char32_t c) {
    std::size_t end = from;
    while (end < text.size() && text[end] == c) ++end;
    return end - from;
  }

  void plain(std::u32string_view text, bool splits) {
    if (text.empty()) return;
    if (!white_) put(" ");
    leave_fresh();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t blanks = run_of(text, at, U' ');
      if (blanks == 1 && column_ > best_width && splits) {
        new_line();
        leave_fresh();
      } else {
        put(text.substr(at, blanks));
      }
      at += blanks;
      const std::size_t end = std::min(text.find(U' ', at), text.size());
      put(text.substr(at, end - at));
      at = end;
    }
  }

  /// Line breaks of a quoted text: the first is doubled, as one alone would fold into a blank.
  std::size_t write_breaks(std::u32string_view text, std::size_t at) {
    std::size_t end = at;
    if (text[at] == U'\n') line_break();
    for (; end < text.size() && text[end] == U'\n'; ++end) line_break();
    // The indentation comes before whatever follows, the closing quote as well.
    const int indent = std::max(indent_, 0);
    if (column_ < indent) {
      white_ = true;
      put(std::string(static_cast<std::size_t>(indent - column_), ' '));
    }
    return end;
  }

  void single_quoted(std::u32string_view text, bool splits) {
    indicator("'");
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] == U' ') {
        const std::size_t blanks = run_of(text, at, U' ');
        const bool inside = at != 0 && at + blanks != text.size();
        if (blanks == 1 && column_ > best_width && splits && inside)
          new_line();
        else
          put(text.substr(at, blanks));
        at += blanks;
      } else if (text[at] == U'\n') {
        at = write_breaks(text, at);
      } else if (text[at] == U'\'') {
        put("''");
        ++at;
      } else {
        const std::size_t end = std::min(text.find_first_of(U" \n'", at), text.size());
        put(text.substr(at, end - at));
        at = end;
      }
    }
    put("'");
    leave_fresh();
  }

  static std::string escaped(char32_t c) {
    constexpr std::u32string_view characters{U"\0\a\b\t\n\v\f\r\x1B\"\\\x85\xA0\u2028\u2029", 15};
    constexpr std::string_view letters = "0abtnvfre\"\\N_LP";
    const std::size_t found = characters.find(c);
    if (found != std::u32string_view::npos) return {'\\', letters[found]};
    const auto code = static_cast<std::uint32_t>(c);
    if (code <= 0xFF) return fmt::format("\\x{:02X}", code);
    return code <= 0xFFFF ? fmt::format("\\u{:04X}", code) : fmt::format("\\U{:08X}", code);
  }

  /// Source: write_double_quoted; `start` is where text not yet written begins.
  void double_quoted(std::u32string_view text, bool splits) {
    indicator("\"");
    std::size_t start = 0;
    for (std::size_t end = 0; end <= text.size(); ++end) {
      const bool at_end = end == text.size();
      const char32_t c = at_end ? U'\0' : text[end];
      if (at_end || c == U'"' || c == U'\\' || c < 0x20 || c > 0x7E) {
        if (start < end) put(text.substr(start, end - start));
        start = end;
        if (!at_end) {
          put(escaped(c));
          start = end + 1;
        }
      }
      const bool may_split = end > 0 && end + 1 < text.size() && (c == U' ' || start >= end);
      const int waiting = start < end ? static_cast<int>(end - start) : 0;
      if (!may_split || column_ + waiting - (start > end ? 1 : 0) <= best_width || !splits)
        continue;
      if (start < end) put(text.substr(start, end - start));
      put("\\");
      if (start < end) start = end;
      new_line();
      leave_fresh();
      if (text[start] == U' ') put("\\");
    }
    put("\"");
    leave_fresh();
  }

  std::string out_;
  int column_ = 0;
  int indent_ = -1;
  bool white_ = true;  ///< the last character is a blank or a line break
  bool fresh_ = true;  ///< nothing but indentation and "-", "?", ":" stands in the line
  bool last_was_plain_ = false;
  std::map<std::uint32_t, int> anchors_;  ///< by shared node; 0: it stands once after all
  int last_anchor_ = 0;
  std::set<std::uint32_t> anchored_;
};

}  // namespace

std::string yaml_text(const ConfigValue& value) { return Emitter().write(value); }

}  // namespace shardscope
