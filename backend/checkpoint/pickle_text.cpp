#include "backend/checkpoint/pickle_text.h"

#include <bit>
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

std::string pickled_real(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::string text = "G";
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bits >> shift & 0xff);
  return text;
}

std::string pickled_boolean(bool value) { return value ? "\x88" : "\x89"; }

std::string pickled_dict(std::string_view items) {
  return std::string("}(").append(items).append("u");
}

std::string pickled_list(std::string_view items) {
  return std::string("](").append(items).append("e");
}

std::string pickled_tuple(std::string_view items) {
  return std::string("(").append(items).append("t");
}

std::string pickled_call(std::string_view function, std::string_view arguments) {
  return std::string(function).append(arguments).append("R");
}

std::string whole_pickle(std::string_view value) {
  return std::string("\x80\x02").append(value).append(".");
}

}  // namespace shardscope
