#include "core/config/deepspeed/base64.h"

#include <cstdint>

namespace shardscope {
namespace {

/// Six bits of a character, or -1 where it is not of the alphabet.
int sextet_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-' || c == '+') return 62;
  if (c == '_' || c == '/') return 63;
  return -1;
}

}  // namespace

std::optional<std::string> decode_base64_url(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int place = 0;  // characters of the current group of four
  int pads = 0;
  for (const char c : text) {
    if (c == '=' && place >= 2 && place + ++pads >= 4) return out;
    const int sextet = sextet_of(c);
    if (sextet < 0) continue;
    pads = 0;
    bits = bits << 6 | static_cast<std::uint32_t>(sextet);
    if (place > 0) out += static_cast<char>(bits >> (6 - 2 * place) & 0xFF);
    place = (place + 1) % 4;
  }
  if (place != 0) return std::nullopt;
  return out;
}

}  // namespace shardscope
