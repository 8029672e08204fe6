#include "core/config/megatron/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/config/megatron/calculator.h"

namespace shardscope::megatron {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20, most_bytes = 4 * mebibyte,
                      most_expanded = 16 * mebibyte, most_words = 1 << 16;
constexpr int deepest_expansion = 16;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

struct Variable {
  std::string value;
  /// The variable that has had other values before: this one, or one that its value comes from.
  std::string unsure = {};
};
using Variables = std::map<std::string, Variable, std::less<>>;

/// Behind the bracket that closes the one at `begin`; the text's end where none does.
std::size_t behind_bracket(std::string_view text, std::size_t begin) {
  const char open = text[begin], close = open == '{' ? '}' : ')';
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size())
      ++i;
    else if (text[i] == open)
      ++depth;
    else if (text[i] == close && --depth == 0)
      return i + 1;
  }
  return text.size();
}

/// Behind what begins with a dollar and a bracket, or a backtick, at `begin`; `begin` where none
/// does.
std::size_t behind_expansion(std::string_view text, std::size_t begin) {
  const std::string_view rest = text.substr(begin);
  if (rest.starts_with("${") || rest.starts_with("$(")) return behind_bracket(text, begin + 1);
  if (!rest.starts_with("`")) return begin;
  const std::size_t end = text.find('`', begin + 1);
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// Bytes that are left for what a script expands to.
class Budget {
 public:
  explicit Budget(const std::string& file) : file_(file) {}
  void take(std::size_t bytes) {
    if (bytes > left_)
      throw Error({.where = file_,
                   .what = fmt::format("its variables expand to more than {} MiB",
                                       most_expanded / mebibyte),
                   .way_out = "give the command line alone"});
    left_ -= bytes;
  }

 private:
  const std::string& file_;
  std::size_t left_ = most_expanded;
};

/// Replaces variables in a text.
class Expander {
 public:
  Expander(Variables& variables, Budget& budget) : variables_(variables), budget_(budget) {}

  std::string expand(std::string_view text, int depth = 0) {
    std::string result;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t dollar = std::min(text.find_first_of("$`", at), text.size());
      append(result, text.substr(at, dollar - at));
      at = dollar;
      if (at == text.size()) break;
      const std::size_t end = end_of(text, at);
      append(result, replaced(text.substr(at, end - at), depth));
      at = end;
    }
    return result;
  }

  /// A variable that was replaced and has had several values; empty: none.
  const std::string& unsure() const { return unsure_; }

 private:
  void append(std::string& result, std::string_view more) {
    budget_.take(more.size());
    result += more;
  }
  static std::size_t end_of(std::string_view text, std::size_t begin) {
    const std::size_t end = behind_expansion(text, begin);
    if (end > begin) return end;
    std::size_t name_end = begin + 1;
    while (name_end < text.size() && is_name(text[name_end])) ++name_end;
    return name_end;
  }
  std::string replaced(std::string_view part, int depth) {
    if (depth >= deepest_expansion) return std::string(part);
    if (part.starts_with("$((") && part.ends_with("))")) {
      const auto value = computed(expand(with_dollars(part.substr(3, part.size() - 5)), depth + 1));
      return value ? std::to_string(*value) : "$((...))";
    }
    if (part.starts_with("$(") || part.starts_with("`")) return "$(...)";
    if (part.starts_with("${") && part.ends_with("}"))
      return braced(part, part.substr(2, part.size() - 3), depth);
    const Variable* variable = find(part.substr(1));
    return variable != nullptr ? variable->value : std::string(part);
  }
  std::string braced(std::string_view whole, std::string_view inner, int depth) {
    const auto end = std::ranges::find_if_not(inner, is_name);
    const std::string_view name(inner.begin(), end);
    std::string_view behind(end, inner.end());
    const Variable* variable = find(name);
    if (behind.empty() || behind == "[@]" || behind == "[*]")
      return variable != nullptr ? variable->value : std::string(whole);
    const bool empty_too = behind.starts_with(":");
    if (empty_too) behind.remove_prefix(1);
    const bool has = variable != nullptr && !(empty_too && variable->value.empty());
    const char operation = behind.empty() ? '\0' : behind.front();
    if (operation == '+') return has ? expand(behind.substr(1), depth + 1) : std::string();
    if (operation != '-' && operation != '=') return std::string(whole);
    if (has) return variable->value;
    std::string value = expand(behind.substr(1), depth + 1);
    if (operation == '=') variables_[std::string(name)] = {.value = value, .unsure = unsure_};
    return value;
  }
  const Variable* find(std::string_view name) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return nullptr;
    if (!found->second.unsure.empty()) unsure_ = found->second.unsure;
    return &found->second;
  }
  /// Names stand for themselves inside $((...)).
  static std::string with_dollars(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool begins =
          is_name(text[i]) && std::isdigit(static_cast<unsigned char>(text[i])) == 0 &&
          (i == 0 || (!is_name(text[i - 1]) && text[i - 1] != '$' && text[i - 1] != '{'));
      if (begins) result += '$';
      result += text[i];
    }
    return result;
  }

  Variables& variables_;
  Budget& budget_;
  std::string unsure_;
};

/// One word of the script before variables are replaced.
struct RawWord {
  std::string text;
  int line = 1;
  bool literal = false;  ///< in single quotes
  bool begins = false;   ///< a command or an array
};

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<RawWord> words() {
    while (at_ < text_.size()) step();
    end_word();
    return std::move(words_);
  }

 private:
  char advance() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  void open() {
    if (!open_)
      word_ = {.text = {}, .line = line_, .begins = std::exchange(begins_command_, false)};
    open_ = true;
  }
  void end_word() {
    if (open_) words_.push_back(std::move(word_));
    if (words_.size() > most_words)
      throw Error({.where = fmt::format("{}:{}", file_, line_),
                   .what = fmt::format("has more than {} words", most_words),
                   .way_out = "give the command line alone"});
    open_ = false;
    word_ = {};
  }
  void step() {
    const char c = text_[at_];
    if (const std::size_t end = behind_expansion(text_, at_); end > at_) return copy_to(end);
    if (c == '\\' && at_ + 1 < text_.size()) return escaped();
    if (c == '"' || c == '\'') return quoted(c);
    if (c == '#' && !open_) return comment();
    const bool ends = is_space(c) || c == ';' || c == '&' || c == '|' || c == '(' || c == ')';
    if (ends)
      end_word_at(c);
    else
      open(), word_.text += c;
    advance();
  }
  /// A new line ends a command, but not inside NAME=( ... ).
  void end_word_at(char c) {
    if (c == '(') in_array_ = open_ && word_.text.ends_with('=');
    if (c == ')') in_array_ = false;
    end_word();
    begins_command_ = begins_command_ || !is_space(c) || (c == '\n' && !in_array_);
  }
  void copy_to(std::size_t end) {
    open();
    while (at_ < end) word_.text += advance();
  }
  void escaped() {
    advance();
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') advance();
    if (text_[at_] == '\n')
      end_word();
    else
      open(), word_.text += text_[at_];
    advance();
  }
  void quoted(char quote) {
    open();
    word_.literal = word_.literal || quote == '\'';
    advance();
    while (at_ < text_.size() && text_[at_] != quote) {
      const std::size_t end = quote == '"' ? behind_expansion(text_, at_) : at_;
      if (end > at_) {
        copy_to(end);
        continue;
      }
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) advance();
      word_.text += advance();
    }
    if (at_ < text_.size()) advance();
  }
  void comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false, in_array_ = false, begins_command_ = true;
  RawWord word_;
  std::vector<RawWord> words_;
};

/// NAME=value or NAME+=value.
struct Assignment {
  std::string name;
  bool appends = false;
  std::string_view value;
};

std::optional<Assignment> assignment_of(std::string_view word) {
  std::size_t end = 0;
  while (end < word.size() && is_name(word[end])) ++end;
  if (end == 0) return std::nullopt;
  const std::string_view behind = word.substr(end);
  if (!behind.starts_with("=") && !behind.starts_with("+=")) return std::nullopt;
  const bool appends = behind.front() == '+';
  return Assignment{.name = std::string(word.substr(0, end)),
                    .appends = appends,
                    .value = behind.substr(appends ? 2 : 1)};
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : file_(file), budget_(file) {
    for (const RawWord& raw : Splitter(text, file).words()) add(raw);
  }

  ShellScript script() {
    for (auto& [name, variable] : variables_)
      script_.variables.emplace(name, std::move(variable.value));
    return std::move(script_);
  }

 private:
  void add(const RawWord& raw) {
    script_.passes_arguments =
        script_.passes_arguments || raw.text == "$@" || raw.text == "$*" || raw.text == "${@}";
    const auto assignment = assignment_of(raw.text);
    const std::string_view source = assignment ? assignment->value : std::string_view(raw.text);
    Expander expander(variables_, budget_);
    const std::string value = raw.literal ? std::string(source) : expander.expand(source);
    if (assignment) assign(*assignment, value, expander.unsure());
    add_words(value, raw.line, raw.begins || assignment.has_value(), expander.unsure());
  }

  void assign(const Assignment& assignment, std::string value, const std::string& unsure) {
    // A line is that of the word that is written: what a variable stands for is on its own.
    std::ranges::replace(value, '\n', ' ');
    const auto [found, fresh] = variables_.try_emplace(assignment.name);
    Variable& variable = found->second;
    budget_.take(value.size());
    if (!unsure.empty()) variable.unsure = unsure;
    if (assignment.appends) {
      variable.value += value;
      return;
    }
    const bool goes_on = assignment.value.find("$" + assignment.name) != std::string_view::npos ||
                         assignment.value.find("${" + assignment.name) != std::string_view::npos;
    if (!fresh && !goes_on && variable.value != value) variable.unsure = assignment.name;
    variable.value = std::move(value);
  }

  void add_words(std::string_view value, int line, bool begins, const std::string& unsure) {
    std::string part;
    const auto end_part = [&] {
      if (!part.empty())
        script_.words.push_back({.text = std::exchange(part, {}),
                                 .line = line,
                                 .unsure = unsure,
                                 .begins = std::exchange(begins, false)});
      if (script_.words.size() > most_words)
        throw Error({.where = fmt::format("{}:{}", file_, line),
                     .what = fmt::format("has more than {} words", most_words),
                     .way_out = "give the command line alone"});
    };
    for (const char c : value) {
      if (is_space(c))
        end_part();
      else
        part += c;
      if (c == '\n') ++line;
    }
    end_part();
  }

  const std::string& file_;
  Budget budget_;
  Variables variables_;
  ShellScript script_;
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::string& file) {
  if (text.size() > most_bytes)
    throw Error(
        {.where = file,
         .what = fmt::format("has {} bytes, and a script of Megatron-LM may have {} ({} MiB)",
                             text.size(), most_bytes, most_bytes / mebibyte),
         .way_out = "give a script with the command line alone"});
  return Reader(text, file).script();
}

}  // namespace shardscope::megatron
