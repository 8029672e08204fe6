#include "core/config/megatron/shell_words.h"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace shardscope::megatron {
namespace {

constexpr std::size_t most_words = 1 << 14, most_bytes_of_value = 1 << 16;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

using Variables = std::map<std::string, std::string, std::less<>>;

/// Whole numbers with + - * / % and parentheses; none where it is no such thing.
class Calculator {
 public:
  explicit Calculator(std::string_view text) : text_(text) {}

  std::optional<std::int64_t> value() {
    const auto result = sum(0);
    skip();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  using Value = std::optional<std::int64_t>;

  void skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char next() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  Value sum(int depth) {
    Value left = product(depth);
    while (left && (next() == '+' || next() == '-')) {
      const char sign = text_[at_++];
      const Value right = product(depth);
      std::int64_t result = 0;
      const bool overflows =
          !right || (sign == '+' ? __builtin_add_overflow(*left, *right, &result)
                                 : __builtin_sub_overflow(*left, *right, &result));
      left = overflows ? Value() : Value(result);
    }
    return left;
  }
  Value product(int depth) {
    Value left = number(depth);
    while (left && (next() == '*' || next() == '/' || next() == '%')) {
      const char sign = text_[at_++];
      const Value right = number(depth);
      std::int64_t result = 0;
      if (!right || (sign != '*' && *right <= 0)) return std::nullopt;
      if (sign == '*' && __builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
      if (sign == '/') result = *left / *right;
      if (sign == '%') result = *left % *right;
      left = result;
    }
    return left;
  }
  Value number(int depth) {
    constexpr int deepest = 64;
    if (depth > deepest) return std::nullopt;
    if (next() == '(') {
      ++at_;
      const Value inner = sum(depth + 1);
      if (!inner || next() != ')') return std::nullopt;
      ++at_;
      return inner;
    }
    std::int64_t value = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (read.ec != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(read.ptr - text_.data());
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Replaces variables in a text.
class Expander {
 public:
  Expander(std::string_view text, const Variables& variables)
      : text_(text), variables_(variables) {}

  std::string expand() {
    while (at_ < text_.size() && result_.size() < most_bytes_of_value) step();
    return std::move(result_);
  }

 private:
  void step() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("$((")) return computed(rest);
    if (rest.starts_with("${")) return braced(rest);
    if (rest.starts_with("$")) return named(rest);
    result_ += text_[at_++];
  }
  void keep(std::size_t length) {
    result_ += text_.substr(at_, length);
    at_ += length;
  }
  void computed(std::string_view rest) {
    const std::size_t end = rest.find("))");
    if (end == std::string_view::npos) return keep(rest.size());
    const std::string_view inner = rest.substr(3, end - 3);
    const std::string dollars = with_dollars(inner);
    const auto value = Calculator(Expander(dollars, variables_).expand()).value();
    if (!value) return keep(end + 2);
    result_ += std::to_string(*value);
    at_ += end + 2;
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
  void braced(std::string_view rest) {
    const std::size_t end = rest.find('}');
    if (end == std::string_view::npos) return keep(rest.size());
    std::string_view inner = rest.substr(2, end - 2);
    const std::size_t name_end = inner.find_first_of(":[-");
    const std::string_view name = inner.substr(0, name_end);
    const std::size_t otherwise = inner.find('-');
    if (const auto found = variables_.find(name); found != variables_.end())
      result_ += found->second;
    else if (otherwise != std::string_view::npos)
      result_ += inner.substr(otherwise + 1);
    else
      return keep(end + 1);
    at_ += end + 1;
  }
  void named(std::string_view rest) {
    std::size_t end = 1;
    while (end < rest.size() && is_name(rest[end])) ++end;
    const auto found = variables_.find(rest.substr(1, end - 1));
    if (found == variables_.end()) return keep(end);
    result_ += found->second;
    at_ += end;
  }

  std::string_view text_;
  const Variables& variables_;
  std::size_t at_ = 0;
  std::string result_;
};

/// One word of the script before variables are replaced.
struct RawWord {
  std::string text;
  int line = 1;
  bool literal = false;  ///< in single quotes
};

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<RawWord> words() {
    while (at_ < text_.size() && words_.size() < most_words) step();
    end_word();
    return std::move(words_);
  }

 private:
  char advance() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  void add(char c) {
    if (!open_) word_ = {.text = {}, .line = line_}, open_ = true;
    word_.text += c;
  }
  void end_word() {
    if (open_) words_.push_back(std::move(word_));
    open_ = false;
    word_ = {};
  }
  void step() {
    const char c = text_[at_];
    if (text_.substr(at_).starts_with("$((")) return copy_until("))");
    if (text_.substr(at_).starts_with("${")) return copy_until("}");
    if (c == '\\' && at_ + 1 < text_.size()) return escaped();
    if (c == '"' || c == '\'') return quoted(c);
    if (c == '#' && !open_) return comment();
    const bool ends = is_space(c) || c == ';' || c == '&' || c == '|' || c == '(' || c == ')';
    if (ends)
      end_word();
    else
      add(c);
    advance();
  }
  void copy_until(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    const std::size_t stop = found == std::string_view::npos ? text_.size() : found + end.size();
    while (at_ < stop) {
      add(text_[at_]);
      advance();
    }
  }
  void escaped() {
    advance();
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') advance();
    if (text_[at_] == '\n')
      end_word();
    else
      add(text_[at_]);
    advance();
  }
  void quoted(char quote) {
    if (!open_) word_ = {.text = {}, .line = line_}, open_ = true;
    word_.literal = word_.literal || quote == '\'';
    advance();
    while (at_ < text_.size() && text_[at_] != quote) {
      const bool joins = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size();
      if (joins) advance();
      word_.text += joins && text_[at_] == '\n' ? ' ' : text_[at_];
      advance();
    }
    if (at_ < text_.size()) advance();
  }
  void comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false;
  RawWord word_;
  std::vector<RawWord> words_;
};

/// The name of "NAME=value"; none of another word.
std::optional<std::string> assigned_name(std::string_view word) {
  std::size_t end = 0;
  while (end < word.size() && is_name(word[end])) ++end;
  if (end == 0 || end >= word.size() || word[end] != '=') return std::nullopt;
  return std::string(word.substr(0, end));
}

}  // namespace

std::vector<ShellWord> shell_words(std::string_view text) {
  Variables variables;
  std::vector<ShellWord> words;
  for (const RawWord& raw : Splitter(text).words()) {
    const auto name = assigned_name(raw.text);
    const std::string_view source =
        name ? std::string_view(raw.text).substr(name->size() + 1) : std::string_view(raw.text);
    const std::string value =
        raw.literal ? std::string(source) : Expander(source, variables).expand();
    if (name) variables.insert_or_assign(*name, value);
    // A line is that of the word's beginning: what stands in quotes over several lines, too.
    int line = raw.line;
    std::string part;
    const auto end_part = [&] {
      if (!part.empty() && words.size() < most_words)
        words.push_back({.text = std::exchange(part, {}), .line = line});
      part.clear();
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
  return words;
}

}  // namespace shardscope::megatron
