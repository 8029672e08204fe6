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

constexpr int deepest_call = 16;
constexpr std::int64_t most_values = 50'000;

struct Parameter {
  std::string name;
  std::size_t otherwise = 0;  ///< token that its default starts with; 0: it has none
};

struct Function {
  std::size_t line = 0;  ///< of the module's lines: the `def`
  std::vector<Parameter> parameters;
};

bool is_one_of(const Token& token, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return token.is(word); });
}

/// Where a "=" outside of brackets stands, from `from` on.
std::optional<std::size_t> equals_sign(std::span<const Token> tokens, std::size_t from = 0) {
  int open = 0;
  for (std::size_t i = from; i < tokens.size(); ++i) {
    if (is_one_of(tokens[i], {"(", "[", "{"})) ++open;
    if (is_one_of(tokens[i], {")", "]", "}"})) --open;
    if (open == 0 && tokens[i].is("=")) return i;
  }
  return std::nullopt;
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
      if (auto function = function_of(lines_[i], i)) functions_[tokens[1].text] = *function;
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
    set_globals();
    const auto function = functions_.find(name);
    if (function == functions_.end())
      throw Error({.where = file_,
                   .what = fmt::format("has no function {}", name),
                   .way_out = fmt::format("give one of {}", fmt::join(names(), ", "))});
    ConfigValue value = run(function->second, ConfigValue::dict());
    return {.value = std::move(value), .skipped = std::move(skipped_)};
  }

 private:
  /// Of one call.
  struct Frame {
    Names locals;
    std::set<std::string, std::less<>> shared;  ///< names of what another value has, too
    std::optional<ConfigValue> returned;
  };

  Error error(int line, std::string what) const {
    return Error({.where = fmt::format("{}:{}", file_, line),
                  .what = std::move(what),
                  .way_out = "give the settings as options, or a function without it"});
  }

  /// Constants of the module.
  void set_globals() {
    const Names none;
    for (const LogicalLine& line : lines_) {
      const std::vector<Token>& tokens = line.tokens;
      if (line.indent > 0 || tokens.size() < 4 || tokens[0].kind != TokenKind::name ||
          !tokens[1].is("="))
        continue;
      std::size_t at = 2;
      globals_[tokens[0].text] = value_at(tokens, at, none);
    }
  }

  ConfigValue value_at(std::span<const Token> tokens, std::size_t& at, const Names& locals) {
    const auto call = [&](const std::string& name,
                          const ConfigValue& given) -> std::optional<ConfigValue> {
      const auto function = functions_.find(name);
      if (function == functions_.end()) return std::nullopt;
      return run(function->second, given);
    };
    return value_of(tokens, at, {locals, globals_, file_, call, budget_});
  }

  ConfigValue run(const Function& function, const ConfigValue& given) {
    const LogicalLine& header = lines_[function.line];
    if (++depth_ > deepest_call || --budget_ < 0)
      throw error(header.line(), "functions call each other too deeply or too often");
    Frame frame;
    for (std::size_t i = 0; i < function.parameters.size(); ++i)
      frame.locals[function.parameters[i].name] =
          argument(function.parameters[i], i, given, header.tokens);
    std::size_t end = function.line + 1;
    while (end < lines_.size() && lines_[end].indent > header.indent) ++end;
    run_block(function.line + 1, end, frame);
    --depth_;
    return frame.returned.value_or(ConfigValue());
  }

  ConfigValue argument(const Parameter& parameter, std::size_t place, const ConfigValue& given,
                       std::span<const Token> header) {
    for (const std::string& key : {parameter.name, std::to_string(place)})
      if (const ConfigValue* value = given.find(key)) return *value;
    if (parameter.otherwise == 0) return not_known(parameter.name, given.line());
    std::size_t at = parameter.otherwise;
    return value_at(header, at, {});
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
        if (!first.is("@")) frame.locals.erase(lines_[i].tokens[1].text);
        i = end_of_block(i, end);
        continue;
      }
      if (is_one_of(first, {"for", "while", "with", "try", "match", "async", "raise", "del"}))
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

  bool holds(std::span<const Token> tokens, const Frame& frame) {
    if (tokens[0].is("else")) return true;
    std::size_t at = 1;
    const ConfigValue condition = value_at(tokens, at, frame.locals);
    if (!is_known(condition))
      throw error(tokens[0].line, "a condition is not known without running Python");
    return condition.truthy();
  }

  void run_statement(std::span<const Token> tokens, Frame& frame) {
    const Token& first = tokens[0];
    if (is_one_of(first, {"pass", "import", "from", "assert", "global"})) return;
    if (first.kind == TokenKind::text) return;
    std::size_t at = 1;
    if (first.is("return")) {
      frame.returned =
          tokens[1].kind == TokenKind::end ? ConfigValue() : value_at(tokens, at, frame.locals);
      return;
    }
    if (const auto sign = equals_sign(tokens)) return assign(tokens, *sign, frame);
    skipped_.push_back({first.line, text_of(tokens)});
  }

  static std::string text_of(std::span<const Token> tokens) {
    std::string text;
    for (const Token& token : tokens)
      text += token.kind == TokenKind::text ? fmt::format("\"{}\"", token.text) : token.text;
    constexpr std::size_t longest = 60;
    return text.size() > longest ? text.substr(0, longest) + "..." : text;
  }

  void assign(std::span<const Token> tokens, std::size_t sign, Frame& frame) {
    std::vector<std::string> path;
    std::size_t i = 0;
    for (; i < sign && tokens[i].kind == TokenKind::name; i += 2) {
      path.push_back(tokens[i].text);
      if (!tokens[i + 1].is(".")) break;
    }
    const bool is_path = !path.empty() && (tokens[i + 1].is("=") || tokens[i + 1].is(":"));
    std::size_t at = sign + 1;
    if (!is_path || equals_sign(tokens, at))
      throw error(tokens[0].line,
                  fmt::format("`{}` is not followed without running Python", text_of(tokens)));
    ConfigValue value = value_at(tokens, at, frame.locals);
    if (path.size() == 1) {
      if (is_plain(tokens, sign))
        frame.shared.insert(path[0]);
      else
        frame.shared.erase(path[0]);
      frame.locals[path[0]] = std::move(value);
      return;
    }
    if (frame.shared.contains(path[0]))
      throw error(tokens[0].line, fmt::format("{} is a part of another value, which is not "
                                              "followed",
                                              path[0]));
    set_attribute(frame.locals[path[0]], path, std::move(value), tokens[0].line);
  }

  /// Whether behind the sign there is a name, or attributes of one: no new value.
  static bool is_plain(std::span<const Token> tokens, std::size_t sign) {
    return std::all_of(tokens.begin() + static_cast<std::ptrdiff_t>(sign) + 1, tokens.end() - 1,
                       [](const Token& t) { return t.kind == TokenKind::name || t.is("."); });
  }

  static void set_attribute(ConfigValue& root, std::span<const std::string> path, ConfigValue value,
                            int line) {
    ConfigValue* at = &root;
    for (std::size_t i = 1; i < path.size(); ++i) {
      if (!at->is_dict()) *at = ConfigValue::dict();
      const bool is_last = i + 1 == path.size();
      if (is_last || !at->has(path[i])) at->set(path[i], is_last ? value : ConfigValue());
      const auto entry = std::ranges::find(at->entries(), path[i], &ConfigValue::Entry::key);
      entry->line = line;
      at = &entry->value;
    }
  }

  const std::string& file_;
  std::vector<LogicalLine> lines_;
  std::map<std::string, Function, std::less<>> functions_;
  Names globals_;
  std::int64_t budget_ = most_values;
  int depth_ = 0;
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
