#include "core/config/yaml/scalar_style.h"

#include <string_view>

#include "core/base/utf8.h"
#include "core/config/yaml/characters.h"

namespace shardscope::yaml {
namespace {

bool is_in(char32_t c, std::u32string_view set) { return set.find(c) != std::u32string_view::npos; }

/// Indicators that a plain scalar of block context must not hold.
bool is_block_indicator(const std::u32string& text, std::size_t at) {
  const char32_t c = text[at];
  const bool blank_behind = at + 1 >= text.size() || is_in(text[at + 1], white_or_end);
  if (at == 0) return is_in(c, U"#,[]{}&*!|>'\"%@`") || (is_in(c, U"?:-") && blank_behind);
  return (c == U':' && blank_behind) || (c == U'#' && is_in(text[at - 1], white_or_end));
}

bool is_special(char32_t c) { return !(c == U'\n' || (c >= 0x20 && c <= 0x7E)); }

}  // namespace

std::u32string code_points(const std::string& text) {
  std::u32string result;
  for (std::string_view rest = text; !rest.empty();) {
    CodePoint point = first_code_point(rest);
    if (point.bytes == 0) point = {0xFFFD, 1};
    result += static_cast<char32_t>(point.value);
    rest.remove_prefix(point.bytes);
  }
  return result;
}

ScalarAnalysis analyze_scalar(const std::u32string& text) {
  constexpr std::u32string_view line_breaks = U"\n\x85\u2028\u2029";
  ScalarAnalysis result{.empty = text.empty()};
  if (text.empty()) return result;
  bool special = false, break_space = false, space_break = false;
  bool indicator = text.starts_with(U"---") || text.starts_with(U"...");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_break = is_in(text[i], line_breaks);
    indicator = indicator || is_block_indicator(text, i);
    special = special || is_special(text[i]);
    result.multiline = result.multiline || is_break;
    if (i == 0) continue;
    break_space = break_space || (text[i] == U' ' && is_in(text[i - 1], line_breaks));
    space_break = space_break || (is_break && text[i - 1] == U' ');
  }
  const auto is_white = [&](char32_t c) { return c == U' ' || is_in(c, line_breaks); };
  result.allows_single_quotes = !break_space && !space_break && !special;
  result.allows_plain = result.allows_single_quotes && !result.multiline && !indicator &&
                        !is_white(text.front()) && !is_white(text.back());
  return result;
}

ScalarStyle choose_style(const ScalarAnalysis& analysis, bool resolves, bool is_key) {
  const bool awkward_key = is_key && (analysis.empty || analysis.multiline);
  if (resolves && analysis.allows_plain && !awkward_key) return ScalarStyle::plain;
  if (analysis.allows_single_quotes && !(is_key && analysis.multiline))
    return ScalarStyle::single_quoted;
  return ScalarStyle::double_quoted;
}

}  // namespace shardscope::yaml
