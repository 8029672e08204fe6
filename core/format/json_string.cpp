#include "core/format/json_string.h"

#include <fmt/format.h>

#include <cstdint>

#include "core/base/utf8.h"

namespace shardscope {

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view special = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  out += '"';
  while (!text.empty()) {
    CodePoint point = first_code_point(text);
    if (point.bytes == 0) point = {0xFFFD, 1};
    const std::uint32_t c = point.value;
    const std::size_t found =
        c < 0x80 ? special.find(static_cast<char>(c)) : std::string_view::npos;
    if (found != std::string_view::npos)
      out += '\\', out += letters[found];
    else if (c >= 0x20 && c < 0x7F)
      out += static_cast<char>(c);
    else if (c < 0x10000)
      out += fmt::format("\\u{:04x}", c);
    else
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                         0xDC00 + ((c - 0x10000) & 0x3FF));
    text.remove_prefix(point.bytes);
  }
  out += '"';
}

}  // namespace shardscope
