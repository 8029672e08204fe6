#include "core/config/megatron/calculator.h"

#include <charconv>

namespace shardscope::megatron {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

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

}  // namespace

std::optional<std::int64_t> computed(std::string_view text) { return Calculator(text).value(); }

}  // namespace shardscope::megatron
