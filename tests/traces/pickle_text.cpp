#include "tests/traces/pickle_text.h"

namespace shardscope::samples::pickled {

std::string text(std::string_view text) {
  return std::string("\x8C") + static_cast<char>(text.size()) + std::string(text);
}

std::string integer(std::int64_t value) {
  std::string code("\x8A\x08");
  for (int i = 0; i < 8; ++i)
    code += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF);
  return code;
}

std::string list(const std::vector<std::string>& items) {
  std::string code("](");
  for (const std::string& item : items) code += item;
  return code + "e";
}

std::string tuple(std::int64_t first, std::int64_t second) {
  return integer(first) + integer(second) + "\x86";
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string code("}(");
  for (const auto& [key, value] : pairs) code += text(key) + value;
  return code + "u";
}

std::string whole(const std::string& value) { return "\x80\x04" + value + "."; }

}  // namespace shardscope::samples::pickled
