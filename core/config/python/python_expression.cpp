#include "core/config/python/python_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/config/python/python_functions.h"
#include "core/config/values/python_number.h"

namespace shardscope::python {
namespace {

constexpr int deepest = 64;
constexpr std::string_view comparisons[] = {"==", "!=", "<", ">", "<=", ">=", "in", "not", "is"};

class Expression {
 public:
  Expression(std::span<const Token> tokens, std::size_t& at, const Surroundings& around)
      : tokens_(tokens), at_(at), around_(around) {}

  ConfigValue whole() {
    if (++depth_ > deepest) throw error("brackets are nested too deeply");
    ConfigValue value = lambda_or_choice();
    --depth_;
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

  ConfigValue lambda_or_choice() {
    if (is("lambda") || is("yield") || is("await")) return skip_to_end_of_element();
    ConfigValue value = disjunction();
    if (!take("if")) return value;
    const ConfigValue condition = disjunction();
    expect("else");
    ConfigValue otherwise = whole();
    if (!is_known(condition)) return not_known("a choice", token().line);
    return condition.truthy() ? value : otherwise;
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
    while (take("or")) value = either(std::move(value), conjunction(), true);
    return value;
  }
  ConfigValue conjunction() {
    ConfigValue value = negation();
    while (take("and")) value = either(std::move(value), negation(), false);
    return value;
  }
  static ConfigValue either(ConfigValue left, ConfigValue right, bool takes_true) {
    if (!is_known(left)) return left;
    return left.truthy() == takes_true ? left : right;
  }
  ConfigValue negation() {
    if (!take("not")) return comparison();
    const ConfigValue value = negation();
    return is_known(value) ? ConfigValue(!value.truthy()) : value;
  }

  ConfigValue comparison() {
    ConfigValue value = sum();
    while (std::ranges::any_of(comparisons, [&](std::string_view word) { return is(word); })) {
      std::string how = token().text;
      ++at_;
      if (how == "not" && take("in")) how = "not in";
      if (how == "is" && take("not")) how = "!=";
      value = compared(value, how == "is" ? "==" : how, sum());
    }
    return value;
  }

  ConfigValue compared(const ConfigValue& left, const std::string& how, const ConfigValue& right) {
    if (left.is_dict() && right.is_null()) return how == "!=" || how == "not in";
    if (!is_known(left) || !is_known(right)) return not_known("a comparison", token().line);
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
    if (++depth_ > deepest) throw error("brackets are nested too deeply");
    ConfigValue value = take("-")   ? combined(ConfigValue(0), "-", signed_value())
                        : take("+") ? signed_value()
                                    : with_suffixes();
    --depth_;
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
    const ConfigValue* found = value.find(name);
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
    if (path.find('.') == std::string::npos)
      if (auto result = around_.call(path, called)) return std::move(*result);
    return called;
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
      const ConfigValue more = whole();
      if (!more.is_dict()) throw error("what stands behind ** is not known");
      for (const ConfigValue::Entry& entry : more.entries())
        if (entry.key != callee_key) called.set(entry.key, entry.value);
    } else if (take("*")) {
      throw error("what stands behind * is not known");
    } else {
      called.set(std::to_string(place++), element());
    }
  }

  /// Of a list or a call: an expression, or what a `for` makes.
  ConfigValue element() {
    ConfigValue value = whole();
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
        const ConfigValue more = whole();
        if (!more.is_dict()) throw error("what stands behind ** is not known");
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
    for (const Names* names : {&around_.locals, &around_.globals})
      if (const auto found = names->find(now.text); found != names->end()) {
        spend(found->second);
        return found->second;
      }
    return not_known(now.text, now.line);
  }

  std::span<const Token> tokens_;
  std::size_t& at_;
  const Surroundings& around_;
  int depth_ = 0;
};

}  // namespace

ConfigValue not_known(std::string text, int line) {
  ConfigValue value(PythonObject{.type = "object", .text = text, .repr = text});
  value.set_line(line);
  return value;
}

bool is_known(const ConfigValue& value) {
  return value.object() == nullptr && !value.has(callee_key);
}

ConfigValue value_of(std::span<const Token> tokens, std::size_t& at, const Surroundings& around) {
  return Expression(tokens, at, around).whole();
}

}  // namespace shardscope::python
