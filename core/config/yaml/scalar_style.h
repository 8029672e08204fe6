// Which style a scalar can be written in.
#pragma once

#include <cstdint>
#include <string>

namespace shardscope::yaml {

enum class ScalarStyle : std::uint8_t { plain, single_quoted, double_quoted };

/// What stands in a scalar's way. Source: PyYAML 6.0.3 emitter.py, analyze_scalar.
struct ScalarAnalysis {
  bool empty = false;
  bool multiline = false;
  bool allows_plain = true;  ///< in block context
  bool allows_single_quotes = true;
};
ScalarAnalysis analyze_scalar(const std::u32string& text);

/// `resolves` says that the plain text would be read as the same type again, `is_key` that it
/// stands in front of a colon. Source: emitter.py, choose_scalar_style.
ScalarStyle choose_style(const ScalarAnalysis& analysis, bool resolves, bool is_key);

/// UTF-8 to code points; bytes that are no UTF-8 become U+FFFD.
std::u32string code_points(const std::string& text);

}  // namespace shardscope::yaml
