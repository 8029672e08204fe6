#include "backend/checkpoint/pickle_text.h"

#include <limits>

namespace shardscope {
namespace {

void append(std::string& text, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

// Opcodes: CPython 3.11, Lib/pickletools.py.
std::string pickled(std::int64_t value) {
  const bool is_short = value >= std::numeric_limits<std::int32_t>::min() &&
                        value <= std::numeric_limits<std::int32_t>::max();
  std::string text = is_short ? "J" : "\x8a\x08";
  append(text, static_cast<std::uint64_t>(value), is_short ? 4 : 8);
  return text;
}

std::string pickled(std::string_view text) {
  std::string made = "X";
  append(made, text.size(), 4);
  return made.append(text);
}

std::string pickled(const Shape& values) {
  std::string text = "(";
  for (const std::int64_t value : values) text += pickled(value);
  return text + "t";
}

std::string pickled_name(std::string_view module, std::string_view name) {
  return std::string("c").append(module).append("\n").append(name).append("\n");
}

}  // namespace shardscope
