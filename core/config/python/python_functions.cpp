#include "core/config/python/python_functions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/config/python/python_expression.h"
#include "core/config/python/python_tokens.h"

namespace shardscope {
namespace python {
namespace {

constexpr int deepest_call = 16, deepest_value = 64;
constexpr std::size_t longest_path = 16;
constexpr std::int64_t most_values = 50'000;

struct Parameter {
  std::string name;
  std::size_t otherwise = 0;  ///< token that its default starts with; 0: it has none
};

struct Function {
  std::size_t line = 0;  ///< of the module's lines: the `def`
  std::vector<Parameter> parameters;
  bool is_followed = true;  ///< it has no statement that is refused
};

bool is_one_of(const Token& token, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return token.is(word); });
}

/// Where one of the words outside of brackets stands, from `from` on.
std::optional<std::size_t> place_of(std::span<const Token> tokens,
                                    std::initializer_list<std::string_view> words,
                                    std::size_t from = 0) {
  int open = 0;
  for (std::size_t i = from; i < tokens.size(); ++i) {
    if (is_one_of(tokens[i], {"(", "[", "{"})) ++open;
    if (is_one_of(tokens[i], {")", "]", "}"})) --open;
    if (open == 0 && is_one_of(tokens[i], words)) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> equals_sign(std::span<const Token> tokens, std::size_t from = 0) {
  return place_of(tokens, {"="}, from);
}

/// "+=" and its like.
std::optional<std::size_t> sign_of_change(std::span<const Token> tokens) {
  return place_of(tokens, {"+=", "-=", "*=", "/=", "//=", "**=", "|=", "&="});
}

/// Names, without attributes: of config.training only config.
std::set<std::string, std::less<>> names_in(std::span<const Token> tokens) {
  std::set<std::string, std::less<>> names;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].kind == TokenKind::name && (i == 0 || !tokens[i - 1].is(".")))
      names.insert(tokens[i].text);
  return names;
}

/// None: the parameters are of a kind that is not read (*, /).
std::optional<Function> function_of(const LogicalLine& line, std::size_t at) {
  Function function{.line = at, .parameters = {}};
  const std::vector<Token>& tokens = line.tokens;
  if (tokens.size() < 5 || !tokens[2].is("(")) return std::nullopt;
  int open = 0;
  bool is_new = true;
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    if (is_one_of(tokens[i], {"(", "[", "{"})) ++open;
    if (is_one_of(tokens[i], {")", "]", "}"}) && --open == 0) return function;
    if (open != 1) continue;
    if (is_one_of(tokens[i], {"*", "**", "/"})) return std::nullopt;
    if (tokens[i].is(",") || i == 2)
      is_new = true;
    else if (std::exchange(is_new, false))
      function.parameters.push_back({.name = tokens[i].text});
    else if (tokens[i].is("="))
      function.parameters.back().otherwise = i + 1;
  }
  return std::nullopt;
}

class Module {
 public:
  Module(std::string_view text, const std::string& file)
      : file_(file), lines_(logical_lines(text, file)) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::vector<Token>& tokens = lines_[i].tokens;
      if (lines_[i].indent > 0 || !tokens[0].is("def")) continue;
      if (auto function = function_of(lines_[i], i)) {
        for (std::size_t j = i + 1; j < lines_.size() && lines_[j].indent > 0; ++j)
          if (is_refused(lines_[j].tokens[0])) function->is_followed = false;
        functions_[tokens[1].text] = *function;
      }
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::pair<std::size_t, std::string>> found;
    for (const auto& [name, function] : functions_)
      if (!name.starts_with("_") && std::ranges::none_of(function.parameters, [](const auto& each) {
            return each.otherwise == 0;
          }))
        found.emplace_back(function.line, name);
    std::ranges::sort(found);
    std::vector<std::string> names;
    for (auto& [line, name] : found) names.push_back(std::move(name));
    return names;
  }

  PythonResult result(const std::string& name) {
    find_constants();
    const auto function = functions_.find(name);
    if (function == functions_.end())
      throw Error({.where = file_,
                   .what = fmt::format("has no function {}", name),
                   .way_out = fmt::format("give one of {}", fmt::join(names(), ", "))});
    ConfigValue value = resolved(run(function->second, ConfigValue::dict()));
    return {.value = std::move(value), .skipped = std::move(skipped_)};
  }

 private:
  using Tokens = std::span<const Token>;

  struct Constant {
    std::size_t line = 0;   ///< of the module's lines
    std::size_t value = 0;  ///< token that its value starts with
  };

  /// Of one call.
  struct Frame {
    Names locals;
    std::optional<ConfigValue> returned;
  };

  Error error(int line, std::string what) const {
    return Error({.where = fmt::format("{}:{}", file_, line),
                  .what = std::move(what),
                  .way_out = "give the settings as options, or a function without it"});
  }

  /// The module's names that are assigned once, in no branch and no function.
  void find_constants() {
    bool is_in_definition = false;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::vector<Token>& tokens = lines_[i].tokens;
      const bool is_definition = is_one_of(tokens[0], {"def", "class", "async", "@"});
      if (lines_[i].indent == 0) is_in_definition = is_definition;
      if (is_definition && lines_[i].indent == 0) {
        if (tokens[0].is("class")) classes_.insert(tokens[1].text);
        continue;
      }
      if (!is_in_definition)
        find_constants(i);
      else if (tokens[0].is("global"))
        unsure_.merge(names_in(tokens));
    }
  }

  void find_constants(std::size_t at) {
    const Tokens tokens = lines_[at].tokens;
    const auto sign = equals_sign(tokens), change = sign_of_change(tokens);
    const bool is_one = lines_[at].indent == 0 && tokens[0].kind == TokenKind::name && sign &&
                        is_one_of(tokens[1], {"=", ":"}) && !equals_sign(tokens, *sign + 1) &&
                        !place_of(tokens, {";"}) &&
                        !is_one_of(tokens[0], {"else", "try", "except", "finally"});
    if (is_one) {
      if (!constants_.try_emplace(tokens[0].text, Constant{at, *sign + 1}).second)
        unsure_.insert(tokens[0].text);
      const auto used = names_in(tokens.subspan(*sign + 1));
      if (std::ranges::any_of(used, [&](const std::string& name) { return has_function(name); }))
        touched_.insert(used.begin(), used.end());
      return;
    }
    const bool is_bound = sign || change || place_of(tokens, {";"}) || has(tokens, ":=") ||
                          is_one_of(tokens[0], {"for", "with", "del", "import", "from", "except",
                                                "def", "class", "async", "match", "case"});
    if (is_bound)
      unsure_.merge(names_in(tokens));
    else if (!is_one_of(tokens[0], {"assert", "if", "elif", "while"}))
      touched_.merge(names_in(tokens));
  }

  static bool has(Tokens tokens, std::string_view word) {
    return std::ranges::any_of(tokens, [&](const Token& token) { return token.is(word); });
  }

  /// Its value is only looked at where it is used.
  const ConfigValue* constant(const std::string& name) {
    const auto found = constants_.find(name);
    if (found == constants_.end()) return nullptr;
    const LogicalLine& line = lines_[found->second.line];
    if (unsure_.contains(name) || functions_.contains(name))
      throw error(line.line(), fmt::format("{} is assigned in several places, which is not "
                                           "followed",
                                           name));
    if (const auto known = values_of_constants_.find(name); known != values_of_constants_.end())
      return &known->second;
    if (++depth_ > deepest_call)
      throw error(line.line(), fmt::format("{} stands for names of names too deeply", name));
    const std::uint32_t objects_before = objects_.size();
    ++constants_in_work_;
    std::size_t at = found->second.value;
    ConfigValue value = whole_value(line.tokens, at, {});
    if (--constants_in_work_ == 0)
      for (std::uint32_t i = objects_before; i < objects_.size(); ++i) of_constants_.insert(i + 1);
    --depth_;
    const bool can_change = objects_.find(value) != nullptr || value.is_list() || value.is_dict();
    if (can_change && touched_.contains(name))
      throw error(line.line(), fmt::format("{} may be changed outside of functions, which is not "
                                           "followed",
                                           name));
    return &(values_of_constants_[name] = std::move(value));
  }

  bool has_function(const std::string& name) const {
    return functions_.contains(name) && !unsure_.contains(name) && !constants_.contains(name);
  }

  ConfigValue value_at(Tokens tokens, std::size_t& at, const Names& locals) {
    const auto call = [&](const std::string& name, const ConfigValue& given) {
      return run(functions_.find(name)->second, given);
    };
    return value_of(tokens, at,
                    {locals, file_, [&](const std::string& name) { return constant(name); },
                     [&](const std::string& name) { return has_function(name); },
                     [&](const std::string& name) { return classes_.contains(name); }, call,
                     objects_, budget_, depth_of_expressions_});
  }

  /// To the end of the line.
  ConfigValue whole_value(Tokens tokens, std::size_t& at, const Names& locals) {
    ConfigValue value = value_at(tokens, at, locals);
    if (at + 1 < tokens.size()) throw not_followed(tokens);
    return value;
  }

  Error not_followed(Tokens tokens) const {
    return error(tokens[0].line,
                 fmt::format("`{}` is not followed without running Python", text_of(tokens)));
  }

  /// The value with what its references stand for.
  ConfigValue resolved(ConfigValue value, int depth = 0) {
    if (--budget_ < 0 || depth > deepest_value)
      throw error(value.line(), "the configuration is nested too deeply, or has too many values");
    const int line = value.line();
    if (const ConfigValue* object = objects_.find(value)) value = *object;
    value.set_line(line);
    if (value.is_list())
      for (ConfigValue& element : value.elements())
        element = resolved(std::move(element), depth + 1);
    if (value.is_dict())
      for (ConfigValue::Entry& entry : value.entries())
        entry.value = resolved(std::move(entry.value), depth + 1);
    return value;
  }

  ConfigValue run(const Function& function, const ConfigValue& given) {
    const LogicalLine& header = lines_[function.line];
    if (++depth_ > deepest_call || --budget_ < 0)
      throw error(header.line(), "functions call each other too deeply or too often");
    Frame frame;
    if (function.line > 0 && lines_[function.line - 1].tokens[0].is("@")) {
      const std::vector<Token>& decorator = lines_[function.line - 1].tokens;
      skipped_.push_back({decorator[0].line, text_of(decorator)});
    }
    for (std::size_t i = 0; i < function.parameters.size(); ++i)
      frame.locals[function.parameters[i].name] = argument(function, i, given);
    std::size_t end = function.line + 1;
    while (end < lines_.size() && lines_[end].indent > header.indent) ++end;
    run_block(function.line + 1, end, frame);
    --depth_;
    return frame.returned.value_or(ConfigValue());
  }

  ConfigValue argument(const Function& function, std::size_t place, const ConfigValue& given) {
    const Parameter& parameter = function.parameters[place];
    for (const std::string& key : {parameter.name, std::to_string(place)})
      if (const ConfigValue* value = given.find(key)) return *value;
    if (parameter.otherwise == 0) return not_known(parameter.name, given.line());
    // Python makes a default once.
    const std::pair key(function.line, place);
    if (const auto known = defaults_.find(key); known != defaults_.end()) return known->second;
    std::size_t at = parameter.otherwise;
    return defaults_[key] = value_at(lines_[function.line].tokens, at, {});
  }

  std::size_t end_of_block(std::size_t header, std::size_t end) const {
    std::size_t i = header + 1;
    while (i < end && lines_[i].indent > lines_[header].indent) ++i;
    return i;
  }

  void run_block(std::size_t from, std::size_t end, Frame& frame) {
    for (std::size_t i = from; i < end && !frame.returned;) {
      const Token& first = lines_[i].tokens[0];
      if (first.is("if")) {
        i = run_branches(i, end, frame);
        continue;
      }
      if (is_one_of(first, {"def", "class", "@"})) {
        const Token& name = lines_[i].tokens[1];
        if (!first.is("@")) frame.locals[name.text] = not_known(name.text, name.line);
        i = end_of_block(i, end);
        continue;
      }
      if (is_refused(first))
        throw error(first.line,
                    fmt::format("`{}` is not followed without running Python", first.text));
      run_statement(lines_[i].tokens, frame);
      ++i;
    }
  }

  /// `if`, `elif` and `else`; behind the last of them.
  std::size_t run_branches(std::size_t from, std::size_t end, Frame& frame) {
    bool is_done = false;
    std::size_t i = from;
    do {
      const std::vector<Token>& tokens = lines_[i].tokens;
      const std::size_t behind = end_of_block(i, end);
      if (!is_done && holds(tokens, frame)) {
        if (behind == i + 1) throw error(tokens[0].line, "a branch in one line is not read");
        run_block(i + 1, behind, frame);
        is_done = true;
      }
      i = behind;
    } while (i < end && lines_[i].indent == lines_[from].indent &&
             is_one_of(lines_[i].tokens[0], {"elif", "else"}));
    return i;
  }

  bool holds(Tokens tokens, const Frame& frame) {
    if (tokens[0].is("else")) return true;
    std::size_t at = 1;
    const ConfigValue condition = value_at(tokens, at, frame.locals);
    if (!is_known(condition))
      throw error(tokens[0].line, "a condition is not known without running Python");
    return condition.truthy();
  }

  void run_statement(Tokens tokens, Frame& frame) {
    const Token& first = tokens[0];
    if (place_of(tokens, {";"})) throw not_followed(tokens);
    if (is_one_of(first, {"import", "from"}))
      for (const std::string& name : names_in(tokens))
        frame.locals[name] = not_known(name, first.line);
    if (is_one_of(first, {"pass", "import", "from", "assert", "global"})) return;
    if (first.kind == TokenKind::text) return;
    std::size_t at = 1;
    if (first.is("return")) {
      frame.returned =
          tokens[1].kind == TokenKind::end ? ConfigValue() : whole_value(tokens, at, frame.locals);
      return;
    }
    if (const auto sign = sign_of_change(tokens)) return change(tokens, *sign, frame);
    if (const auto sign = equals_sign(tokens)) return assign(tokens, *sign, frame);
    if (calls_followed(tokens, frame)) {
      at = 0;
      whole_value(tokens, at, frame.locals);
      return;
    }
    skipped_.push_back({first.line, text_of(tokens)});
  }

  /// Whether it calls one of the module's functions that has nothing that is refused.
  bool calls_followed(Tokens tokens, const Frame& frame) const {
    const std::string& name = tokens[0].text;
    if (!tokens[1].is("(") || !has_function(name) || frame.locals.contains(name)) return false;
    return functions_.find(name)->second.is_followed;
  }

  static bool is_refused(const Token& first) {
    return is_one_of(first, {"for", "while", "with", "try", "match", "async", "raise", "del"});
  }

  static std::string text_of(std::span<const Token> tokens) {
    std::string text;
    for (const Token& token : tokens)
      text += token.kind == TokenKind::text ? fmt::format("\"{}\"", token.text) : token.text;
    constexpr std::size_t longest = 60;
    return text.size() > longest ? text.substr(0, longest) + "..." : text;
  }

  /// a += b as a = a + (b), which is the same for numbers and texts.
  void change(Tokens tokens, std::size_t sign, Frame& frame) {
    const Tokens target = tokens.first(sign);
    std::vector<Token> longer(target.begin(), target.end());
    const int line = tokens[0].line;
    longer.push_back({TokenKind::symbol, "=", line});
    longer.insert(longer.end(), target.begin(), target.end());
    longer.push_back({TokenKind::end, "", line});
    std::size_t at = sign + 1;
    if (value_at(longer, at, frame.locals).is_list()) throw not_followed(tokens);
    const std::string& text = tokens[sign].text;
    longer.back() = {TokenKind::symbol, text.substr(0, text.size() - 1), line};
    longer.push_back({TokenKind::symbol, "(", line});
    longer.insert(longer.end(), tokens.begin() + static_cast<std::ptrdiff_t>(sign) + 1,
                  tokens.end() - 1);
    longer.push_back({TokenKind::symbol, ")", line});
    longer.push_back({TokenKind::end, "", line});
    assign(longer, sign, frame);
  }

  void assign(Tokens tokens, std::size_t sign, Frame& frame) {
    std::vector<std::string> path;
    std::size_t i = 0;
    for (; i < sign && tokens[i].kind == TokenKind::name; i += 2) {
      path.push_back(tokens[i].text);
      if (!tokens[i + 1].is(".")) break;
    }
    const bool is_path = !path.empty() && (tokens[i + 1].is("=") || tokens[i + 1].is(":"));
    std::size_t at = sign + 1;
    if (!is_path || path.size() > longest_path || equals_sign(tokens, at))
      throw not_followed(tokens);
    ConfigValue value = whole_value(tokens, at, frame.locals);
    if (path.size() == 1)
      frame.locals[path[0]] = std::move(value);
    else
      set_attribute(path, std::move(value), tokens[0].line, frame);
  }

  void set_attribute(std::span<const std::string> path, ConfigValue value, int line,
                     const Frame& frame) {
    const auto local = frame.locals.find(path[0]);
    const ConfigValue* at = local != frame.locals.end() ? &local->second : constant(path[0]);
    ConfigValue* object = at != nullptr ? object_of(*at, path[0], line) : nullptr;
    if (object == nullptr) throw not_known_here(path[0], line);
    for (const std::string& name : path.subspan(1, path.size() - 2)) {
      if (!object->has(name)) {
        const std::string callee = callee_of(*object);
        const bool has_defaults =
            callee.empty() || callee.ends_with("Config") || callee.ends_with("default_adamw");
        if (!has_defaults) throw not_known_here(name, line);
        set(*object, name, objects_.add(ConfigValue::dict({{std::string(callee_key), ""}}), line),
            line);
      }
      object = object_of(*object->find(name), name, line);
    }
    set(*object, path.back(), std::move(value), line);
  }

  static void set(ConfigValue& object, const std::string& name, ConfigValue value, int line) {
    object.set(name, std::move(value));
    std::ranges::find(object.entries(), name, &ConfigValue::Entry::key)->line = line;
  }

  Error not_known_here(const std::string& name, int line) const {
    return error(line, fmt::format("{} is not known without running Python", name));
  }

  ConfigValue* object_of(const ConfigValue& value, const std::string& name, int line) {
    ConfigValue* object = objects_.find(value);
    if (object == nullptr) throw not_known_here(name, line);
    if (constants_in_work_ == 0 && of_constants_.contains(value.shared_node()))
      throw error(line, fmt::format("{} belongs to a constant of the module, whose changes are "
                                    "not followed",
                                    name));
    return object;
  }

  const std::string& file_;
  std::vector<LogicalLine> lines_;
  std::map<std::string, Function, std::less<>> functions_;
  std::map<std::string, Constant, std::less<>> constants_;
  std::set<std::string, std::less<>> unsure_;   ///< names that are also bound in other ways
  std::set<std::string, std::less<>> touched_;  ///< names of what a statement may change
  std::set<std::string, std::less<>> classes_;
  Names values_of_constants_;
  int constants_in_work_ = 0;
  std::set<std::uint32_t> of_constants_;  ///< objects that constants made
  std::map<std::pair<std::size_t, std::size_t>, ConfigValue> defaults_;
  Objects objects_;
  std::int64_t budget_ = most_values;
  int depth_ = 0, depth_of_expressions_ = 0;
  std::vector<PythonResult::Skipped> skipped_;
};

}  // namespace
}  // namespace python

PythonName python_name(std::string_view name) {
  constexpr std::string_view between = ".py:";
  const std::size_t at = name.rfind(between);
  if (at == std::string_view::npos) return {.file = std::string(name), .function = {}};
  return {.file = std::string(name.substr(0, at + between.size() - 1)),
          .function = std::string(name.substr(at + between.size()))};
}

std::vector<std::string> python_functions(std::string_view text, const std::string& file) {
  return python::Module(text, file).names();
}

PythonResult python_result(std::string_view text, const std::string& file,
                           std::string_view function) {
  return python::Module(text, file).result(std::string(function));
}

}  // namespace shardscope
