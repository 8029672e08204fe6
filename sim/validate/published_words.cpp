#include "sim/validate/published_words.h"

#include <algorithm>
#include <charconv>

namespace shardscope {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool has_word(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

std::optional<int> number_after(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t digits = at + word.size();
    const bool starts = at == 0 || (!is_letter(text[at - 1]) && !is_digit(text[at - 1]));
    if (!starts || digits >= text.size() || !is_digit(text[digits])) continue;
    int value = 0;
    const auto read = std::from_chars(text.data() + digits, text.data() + text.size(), value);
    if (read.ec == std::errc()) return value;
  }
  return std::nullopt;
}

}  // namespace shardscope
