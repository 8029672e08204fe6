#include "core/config/python/python_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/config/python/python_functions.h"
#include "core/config/values/python_number.h"

namespace shardscope::python {
namespace {

constexpr int deepest = 128;
/// Whether Python runs what is read.
enum class Runs : std::uint8_t { yes, maybe, no };

constexpr std::string_view comparisons[] = {"==", "!=", "<", ">", "<=", ">=", "in", "not", "is"};

class Expression {
 public:
  Expression(std::span<const Token> tokens, std::size_t& at, const Surroundings& around)
      : tokens_(tokens), at_(at), around_(around) {}

  ConfigValue whole() {
    if (++around_.depth > deepest) throw error("brackets are nested too deeply");
    ConfigValue value = lambda_or_choice();
    --around_.depth;
    return value;
  }

 private:
  const Token& token() const { return tokens_[std::min(at_, tokens_.size() - 1)]; }
  bool is(std::string_view word) const { return token().is(word); }
  bool take(std::string_view word) {
    if (!is(word)) return false;
    ++at_;
    return true;
  }
  Error error(std::string what) const {
    return Error({.where = fmt::format("{}:{}", around_.file, token().line),
                  .what = std::move(what),
                  .way_out = "give a configuration that puts known values together"});
  }
  void expect(std::string_view word) {
    if (!take(word)) throw error(fmt::format("expected \"{}\", got \"{}\"", word, token().text));
  }
  void spend(const ConfigValue& value) {
    if (--around_.budget < 0) throw error("the configuration makes too many values");
    if (value.is_list())
      for (const ConfigValue& element : value.elements()) spend(element);
    if (value.is_dict())
      for (const ConfigValue::Entry& entry : value.entries()) spend(entry.value);
  }

  template <class Read>
  ConfigValue read_as(Runs runs, const Read& read) {
    const Runs before = std::exchange(runs_, std::max(runs_, runs));
    ConfigValue value = read();
    runs_ = before;
    return value;
  }

  /// Whether the word follows in this element, outside of its brackets.
  bool is_ahead(std::string_view word) const {
    int open = 0;
    for (std::size_t i = at_; i < tokens_.size() && tokens_[i].kind != TokenKind::end; ++i) {
      const Token& each = tokens_[i];
      if (open == 0 && each.is(word)) return true;
      const bool opens = each.is("(") || each.is("[") || each.is("{");
      const bool closes = each.is(")") || each.is("]") || each.is("}");
      const bool ends = closes || each.is(",") || each.is(":") || each.is("=") || each.is("else") ||
                        each.is("for");
      if (open == 0 && ends) return false;
      open += opens ? 1 : closes ? -1 : 0;
    }
    return false;
  }

  ConfigValue lambda_or_choice() {
    if (is("lambda") || is("yield") || is("await")) return skip_to_end_of_element();
    return is_ahead("if") ? choice() : disjunction();
  }

  /// Python reads the condition first, and then one of the two.
  ConfigValue choice() {
    const auto one = [&] { return disjunction(); };
    const std::size_t start = at_;
    read_as(Runs::no, one);
    expect("if");
    const ConfigValue condition = disjunction();
    expect("else");
    const bool known = is_known(condition), first = known && condition.truthy();
    ConfigValue otherwise = read_as(!known  ? Runs::maybe
                                    : first ? Runs::no
                                            : Runs::yes,
                                    [&] { return whole(); });
    if (runs_ != Runs::yes || (known && !first)) return otherwise;
    const std::size_t end = std::exchange(at_, start);
    ConfigValue value = read_as(known ? Runs::yes : Runs::maybe, one);
    at_ = end;
    return known ? value : not_known("a choice", token().line);
  }

  /// To the comma or bracket that ends it, or the end of the line.
  ConfigValue skip_to_end_of_element() {
    const int line = token().line;
    int open = 0;
    for (; token().kind != TokenKind::end; ++at_) {
      const bool opens = is("(") || is("[") || is("{"), closes = is(")") || is("]") || is("}");
      if (open == 0 && (closes || is(","))) break;
      open += opens ? 1 : closes ? -1 : 0;
    }
    return not_known("an expression", line);
  }

  ConfigValue disjunction() {
    ConfigValue value = conjunction();
    while (take("or")) value = either(std::move(value), true, [&] { return conjunction(); });
    return value;
  }
  ConfigValue conjunction() {
    ConfigValue value = negation();
    while (take("and")) value = either(std::move(value), false, [&] { return negation(); });
    return value;
  }
  template <class Read>
  ConfigValue either(ConfigValue left, bool takes_true, const Read& read) {
    const bool known = is_known(left), ends = known && left.truthy() == takes_true;
    ConfigValue right = read_as(!known ? Runs::maybe : ends ? Runs::no : Runs::yes, read);
    if (!known) return not_known("a choice", token().line);
    return ends ? left : right;
  }
  ConfigValue negation() {
    int times = 0;
    while (take("not")) ++times;
    ConfigValue value = comparison();
    if (times == 0) return value;
    if (!is_known(value)) return not_known("a comparison", token().line);
    return value.truthy() == (times % 2 == 0);
  }

  ConfigValue comparison() {
    ConfigValue value = sum();
    bool is_chain = false;
    while (std::ranges::any_of(comparisons, [&](std::string_view word) { return is(word); })) {
      std::string how = token().text;
      ++at_;
      if (how == "not" && take("in")) how = "not in";
      if (how == "is" && take("not")) how = "!=";
      value = compared(value, how == "is" ? "==" : how, sum());
      if (std::exchange(is_chain, true)) value = not_known("a comparison", token().line);
    }
    return value;
  }

  static bool is_known_whole(const ConfigValue& value) {
    return is_known(value) && !value.is_dict() &&
           (!value.is_list() || std::ranges::all_of(value.elements(), is_known_whole));
  }

  ConfigValue compared(const ConfigValue& left, const std::string& how, const ConfigValue& right) {
    const ConfigValue* object = around_.objects.find(left);
    if (object != nullptr && right.is_null() && callee_of(*object).ends_with("Config"))
      return how == "!=";
    if (!is_known_whole(left) || !is_known_whole(right))
      return not_known("a comparison", token().line);
    if (how == "==") return left == right;
    if (how == "!=") return !(left == right);
    if (how == "in" || how == "not in") {
      if (!right.is_list()) return not_known("a comparison", token().line);
      return (std::ranges::find(right.elements(), left) != right.elements().end()) == (how == "in");
    }
    if (!left.is_number() || !right.is_number()) return not_known("a comparison", token().line);
    if (how == "<") return left.number() < right.number();
    if (how == ">") return left.number() > right.number();
    return how == "<=" ? left.number() <= right.number() : left.number() >= right.number();
  }

  ConfigValue sum() {
    ConfigValue value = product();
    while (is("+") || is("-") || is("|")) {
      const std::string how = token().text;
      ++at_;
      value = combined(value, how, product());
    }
    return value;
  }
  ConfigValue product() {
    ConfigValue value = signed_value();
    while (is("*") || is("/") || is("//") || is("%") || is("**")) {
      const std::string how = token().text;
      ++at_;
      value = combined(value, how, signed_value());
    }
    return value;
  }

  ConfigValue combined(const ConfigValue& left, const std::string& how, const ConfigValue& right) {
    if (how == "+" && left.is_list() && right.is_list()) {
      ConfigValue::List list = left.elements();
      list.insert(list.end(), right.elements().begin(), right.elements().end());
      return list;
    }
    if (left.is_integer() && right.is_integer())
      if (const auto whole = combined(left.integer(), how, right.integer())) return *whole;
    const bool are_numbers = left.is_number() && right.is_number() && !left.big_integer() &&
                             !right.big_integer() && (left.is_double() || right.is_double());
    if (!are_numbers) return not_known("a value that is computed", token().line);
    if (how == "+") return left.number() + right.number();
    if (how == "-") return left.number() - right.number();
    if (how == "*") return left.number() * right.number();
    return not_known("a value that is computed", token().line);
  }

  static std::optional<ConfigValue> combined(std::int64_t left, const std::string& how,
                                             std::int64_t right) {
    std::int64_t result = 0;
    if (how == "+" && !__builtin_add_overflow(left, right, &result)) return result;
    if (how == "-" && !__builtin_sub_overflow(left, right, &result)) return result;
    if (how == "*" && !__builtin_mul_overflow(left, right, &result)) return result;
    if (how == "//" && left >= 0 && right > 0) return left / right;
    if (how == "%" && left >= 0 && right > 0) return left % right;
    return std::nullopt;
  }

  ConfigValue signed_value() {
    if (++around_.depth > deepest) throw error("brackets are nested too deeply");
    ConfigValue value = take("-")   ? combined(ConfigValue(0), "-", signed_value())
                        : take("+") ? signed_value()
                                    : with_suffixes();
    --around_.depth;
    return value;
  }

  ConfigValue with_suffixes() {
    const Token first = token();
    std::string path = first.kind == TokenKind::name ? first.text : std::string();
    ConfigValue value = atom();
    for (;;) {
      if (is("(")) {
        value = call(path, first.line);
        path.clear();
      } else if (take(".")) {
        if (!path.empty()) path += "." + token().text;
        value = attribute(value, token().text);
        ++at_;
      } else if (take("[")) {
        element();
        expect("]");
        value = not_known("an element", first.line);
        path.clear();
      } else {
        break;
      }
    }
    value.set_line(first.line);
    return value;
  }

  ConfigValue attribute(const ConfigValue& value, const std::string& name) {
    const ConfigValue* object = around_.objects.find(value);
    const ConfigValue* found = object != nullptr ? object->find(name) : nullptr;
    return found != nullptr ? *found : not_known(name, token().line);
  }

  ConfigValue call(const std::string& path, int line) {
    ConfigValue called = ConfigValue::dict({{std::string(callee_key), path}});
    called.set_line(line);
    expect("(");
    for (int place = 0; !is(")"); take(",")) {
      const std::size_t before = at_;
      argument(called, place);
      if (at_ == before) throw error(fmt::format("\"{}\" is not expected", token().text));
    }
    expect(")");
    if (runs_ == Runs::no) return not_known(path, line);
    const bool is_own = around_.has_function(path) && !around_.locals.contains(path);
    if (is_own && runs_ == Runs::yes) return around_.call(path, called);
    if (path == "replace" || path == "dataclasses.replace") return replaced(std::move(called));
    if (may_change(path, called))
      throw error(fmt::format("what {} changes is not known without running Python", path));
    if (is_own) return not_known(path, line);
    if (--around_.budget < 0) throw error("the configuration makes too many values");
    called.set(callee_key, name_of(path));
    return around_.objects.add(std::move(called), line);
  }

  /// Of a callee: no import's name where the file gives that name another meaning.
  std::string name_of(const std::string& path) const {
    const std::string root = path.substr(0, path.find('.'));
    const auto local = around_.locals.find(root);
    const PythonObject* object = local == around_.locals.end() ? nullptr : local->second.object();
    const bool is_import = object != nullptr && object->text == root;
    const bool is_assigned =
        local != around_.locals.end() ? !is_import : around_.constant(root) != nullptr;
    if (is_assigned) return fmt::format("what is assigned to {}", path);
    return around_.has_class(root) ? fmt::format("this file's {}", path) : path;
  }

  /// A function, not a class, that is given a configuration, or is one's method.
  bool may_change(const std::string& path, const ConfigValue& called) const {
    const auto is_config = [&](const ConfigValue& value) {
      const ConfigValue* object = around_.objects.find(value);
      return object != nullptr && callee_of(*object).ends_with("Config");
    };
    const std::size_t dot = path.rfind('.');
    const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    if (name.empty() || path == "dict" ||
        std::isupper(static_cast<unsigned char>(name.front())) != 0)
      return false;
    const auto root = around_.locals.find(path.substr(0, path.find('.')));
    if (dot != std::string::npos && root != around_.locals.end() && is_config(root->second))
      return true;
    return std::ranges::any_of(
        called.entries(), [&](const ConfigValue::Entry& each) { return is_config(each.value); });
  }

  /// Of dataclasses: a new object with other values of some fields.
  ConfigValue replaced(ConfigValue called) {
    const int line = called.line();
    const ConfigValue given = called.get("0");
    const ConfigValue* object = around_.objects.find(given);
    if (object == nullptr) return not_known(given.str(), line);
    ConfigValue copy = *object;
    for (const ConfigValue::Entry& entry : called.entries())
      if (entry.key != callee_key && entry.key != "0") {
        copy.set(entry.key, entry.value);
        std::ranges::find(copy.entries(), entry.key, &ConfigValue::Entry::key)->line = entry.line;
      }
    return around_.objects.add(std::move(copy), line);
  }

  /// The entries behind **, of a dict or of dict(a=1).
  ConfigValue unpacked() {
    ConfigValue more = whole();
    const ConfigValue* object = around_.objects.find(more);
    if (object != nullptr && callee_of(*object) == "dict") more = *object;
    if (!more.is_dict()) throw error("what stands behind ** is not known");
    more.erase(callee_key);
    spend(more);
    return more;
  }

  void argument(ConfigValue& called, int& place) {
    const int line = token().line;
    const bool is_named =
        token().kind == TokenKind::name && at_ + 1 < tokens_.size() && tokens_[at_ + 1].is("=");
    if (is_named) {
      const std::string name = token().text;
      at_ += 2;
      called.set(name, whole());
      called.entries().back().line = line;
    } else if (take("**")) {
      const ConfigValue more = unpacked();
      for (const ConfigValue::Entry& entry : more.entries()) called.set(entry.key, entry.value);
    } else if (take("*")) {
      throw error("what stands behind * is not known");
    } else {
      called.set(std::to_string(place++), element());
    }
  }

  /// Of a list or a call: an expression, or what a `for` makes.
  ConfigValue element() {
    ConfigValue value = read_as(is_ahead("for") ? Runs::maybe : Runs::yes, [&] { return whole(); });
    if (is("for") || is("async") || is(":")) return skip_to_end_of_element();
    return value;
  }

  ConfigValue list_until(std::string_view closing) {
    ConfigValue::List list;
    bool has_comma = false;
    while (!is(closing)) {
      const std::size_t before = at_;
      if (take("*")) throw error("what stands behind * is not known");
      list.push_back(element());
      if (take(",")) has_comma = true;
      if (at_ == before) throw error(fmt::format("\"{}\" is not expected", token().text));
    }
    expect(closing);
    if (closing == ")" && list.size() == 1 && !has_comma) return std::move(list.front());
    return list;
  }

  ConfigValue dict_or_set() {
    ConfigValue dict = ConfigValue::dict();
    while (!is("}")) {
      const std::size_t before = at_;
      const int line = token().line;
      if (take("**")) {
        const ConfigValue more = unpacked();
        for (const ConfigValue::Entry& entry : more.entries()) dict.set(entry.key, entry.value);
      } else {
        const ConfigValue key = whole();
        if (take(":")) {
          dict.set(key.is_string() ? key.string() : key.repr(), whole());
          dict.entries().back().line = line;
        }
        if (is("for")) skip_to_end_of_element();
      }
      take(",");
      if (at_ == before) throw error(fmt::format("\"{}\" is not expected", token().text));
    }
    expect("}");
    return dict;
  }

  ConfigValue atom() {
    const Token now = token();
    ++at_;
    if (now.is("(")) return list_until(")");
    if (now.is("[")) return list_until("]");
    if (now.is("{")) return dict_or_set();
    if (now.is("...")) return not_known("...", now.line);
    if (now.kind == TokenKind::number) return number(now);
    if (now.kind == TokenKind::text || now.kind == TokenKind::formatted_text) return text(now);
    if (now.kind == TokenKind::name) return named(now);
    --at_;
    throw error(now.kind == TokenKind::end ? std::string("an expression is missing")
                                           : fmt::format("\"{}\" is not expected", now.text));
  }

  ConfigValue text(const Token& first) {
    std::string whole = first.text;
    bool is_formatted = first.kind == TokenKind::formatted_text;
    for (; token().kind == TokenKind::text || token().kind == TokenKind::formatted_text; ++at_) {
      is_formatted = is_formatted || token().kind == TokenKind::formatted_text;
      whole += token().text;
    }
    return is_formatted ? not_known("a text", first.line) : ConfigValue(std::move(whole));
  }

  ConfigValue number(const Token& now) const {
    std::string digits = now.text;
    try {
      const bool is_other_base = digits.size() > 1 && digits[0] == '0' && std::isalpha(digits[1]);
      if (!is_other_base && digits.find_first_of(".eE") != std::string::npos)
        return python_float_of(digits);
      if (is_other_base) return not_known(digits, now.line);
      return python_integer(digits);
    } catch (const Error&) {
      throw error(fmt::format("{} is no number", digits));
    }
  }

  ConfigValue named(const Token& now) {
    if (now.text == "True") return true;
    if (now.text == "False") return false;
    if (now.text == "None") return {};
    const auto local = around_.locals.find(now.text);
    const ConfigValue* found =
        local != around_.locals.end() ? &local->second : around_.constant(now.text);
    if (found != nullptr) {
      spend(*found);
      return *found;
    }
    return not_known(now.text, now.line);
  }

  std::span<const Token> tokens_;
  std::size_t& at_;
  const Surroundings& around_;
  Runs runs_ = Runs::yes;
};

}  // namespace

ConfigValue Objects::add(ConfigValue object, int line) {
  object.set_line(line);
  ConfigValue reference = not_known(callee_of(object), line);
  objects_.push_back(std::move(object));
  reference.set_shared_node(static_cast<std::uint32_t>(objects_.size()));
  return reference;
}

ConfigValue* Objects::find(const ConfigValue& reference) {
  const std::uint32_t number = reference.shared_node();
  return number == 0 ? nullptr : &objects_[number - 1];
}

std::string callee_of(const ConfigValue& object) {
  const ConfigValue callee = object.get(callee_key);
  return callee.is_string() ? callee.string() : std::string();
}

ConfigValue not_known(std::string text, int line) {
  ConfigValue value(PythonObject{.type = "object", .text = text, .repr = text});
  value.set_line(line);
  return value;
}

bool is_known(const ConfigValue& value) { return value.object() == nullptr; }

ConfigValue value_of(std::span<const Token> tokens, std::size_t& at, const Surroundings& around) {
  return Expression(tokens, at, around).whole();
}

}  // namespace shardscope::python
