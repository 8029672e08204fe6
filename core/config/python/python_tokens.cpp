#include "core/config/python/python_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "core/base/error.h"

namespace shardscope::python {
namespace {

bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool goes_on_name(char c) { return starts_name(c) || is_digit(c); }

class Tokens {
 public:
  Tokens(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<LogicalLine> read() {
    while (at_ < text_.size()) read_line();
    if (depth_ > 0) throw error("a bracket stays open");
    return std::move(lines_);
  }

 private:
  Error error(std::string what) const {
    return Error({.where = fmt::format("{}:{}", file_, line_),
                  .what = std::move(what),
                  .way_out = "give a file that Python can read"});
  }

  char next(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void add(TokenKind kind, std::string text, int line) {
    current_.tokens.push_back({kind, std::move(text), line});
  }

  void end_line() {
    if (!current_.tokens.empty()) {
      add(TokenKind::end, "", line_);
      lines_.push_back(std::move(current_));
    }
    current_ = {};
  }

  /// To the end of a logical line.
  void read_line() {
    while (next() == ' ' || next() == '\t') {
      ++current_.indent;
      ++at_;
    }
    while (at_ < text_.size()) {
      const char c = next();
      if (c == '\n') {
        ++at_;
        if (depth_ == 0) end_line();
        ++line_;
        if (depth_ == 0) return;
      } else if (c == '\\' && (next(1) == '\n' || (next(1) == '\r' && next(2) == '\n'))) {
        at_ += next(1) == '\n' ? 2 : 3;
        ++line_;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else {
        read_token();
      }
    }
    if (depth_ == 0) end_line();
  }

  void read_token() {
    const char c = next();
    if (const auto quote = quote_ahead())
      read_text(*quote);
    else if (starts_name(c))
      add(TokenKind::name, take_while(goes_on_name), line_);
    else if (is_digit(c) || (c == '.' && is_digit(next(1))))
      read_number();
    else
      read_symbol();
  }

  template <class Test>
  std::string take_while(const Test& test) {
    const std::size_t from = at_;
    while (at_ < text_.size() && test(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  void read_number() {
    const std::size_t from = at_;
    const auto goes_on = [&] {
      const char before = at_ > from ? text_[at_ - 1] : '0';
      const bool sign = (next() == '+' || next() == '-') && (before == 'e' || before == 'E') &&
                        text_.substr(from, 2) != "0x" && text_.substr(from, 2) != "0X";
      return goes_on_name(next()) || next() == '.' || sign;
    };
    while (at_ < text_.size() && goes_on()) ++at_;
    add(TokenKind::number, std::string(text_.substr(from, at_ - from)), line_);
  }

  /// How many letters of a prefix stand before a quote.
  std::optional<std::size_t> quote_ahead() const {
    constexpr std::string_view prefixes = "rRbBfFuU";
    for (std::size_t i = 0; i <= 2; ++i) {
      if (next(i) == '"' || next(i) == '\'') return i;
      if (prefixes.find(next(i)) == std::string_view::npos) return std::nullopt;
    }
    return std::nullopt;
  }

  void read_text(std::size_t letters) {
    const std::string_view prefix = text_.substr(at_, letters);
    const bool raw = prefix.find_first_of("rR") != std::string_view::npos;
    const bool formatted = prefix.find_first_of("fF") != std::string_view::npos;
    const int line = line_;
    at_ += letters;
    const char quote = next();
    const bool triple = next(1) == quote && next(2) == quote;
    const std::string closing(triple ? 3 : 1, quote);
    at_ += closing.size();
    std::string read;
    while (text_.substr(at_, closing.size()) != closing) {
      if (at_ >= text_.size() || (!triple && next() == '\n')) throw error("a text stays open");
      if (next() == '\n') ++line_;
      if (next() == '\\' && at_ + 1 < text_.size())
        take_escape(raw, read);
      else
        read += text_[at_++];
    }
    at_ += closing.size();
    add(formatted ? TokenKind::formatted_text : TokenKind::text, std::move(read), line);
  }

  void take_escape(bool raw, std::string& read) {
    const char c = next(1);
    if (c == '\n') ++line_;
    at_ += 2;
    constexpr std::string_view letters = "nt\\'\"\n", meant = "\n\t\\'\"";
    const std::size_t known = raw ? std::string_view::npos : letters.find(c);
    if (known == std::string_view::npos)
      read += {'\\', c};
    else if (known < meant.size())
      read += meant[known];
  }

  void read_symbol() {
    constexpr std::string_view symbols[] = {"**=", "//=", "...", "**", "//", "==", "!=", "<=", ">=",
                                            "->",  ":=",  "+=",  "-=", "*=", "/=", "|=", "&="};
    std::string symbol(1, next());
    for (const std::string_view known : symbols)
      if (text_.substr(at_, known.size()) == known) {
        symbol = known;
        break;
      }
    if (std::string_view("([{").find(symbol) != std::string_view::npos) ++depth_;
    if (std::string_view(")]}").find(symbol) != std::string_view::npos && --depth_ < 0)
      throw error(fmt::format("a \"{}\" closes nothing", symbol));
    at_ += symbol.size();
    add(TokenKind::symbol, std::move(symbol), line_);
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  LogicalLine current_;
  std::vector<LogicalLine> lines_;
};

}  // namespace

std::vector<LogicalLine> logical_lines(std::string_view text, const std::string& file) {
  return Tokens(text, file).read();
}

}  // namespace shardscope::python
