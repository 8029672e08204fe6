#include "traces/import/name_table.h"

#include <functional>

namespace shardscope {
namespace {

std::size_t slot_of(std::string_view text, std::size_t mask) {
  return std::hash<std::string_view>{}(text)&mask;
}

}  // namespace

void NameTable::grow() {
  const std::size_t size = slots_.empty() ? 256 : slots_.size() * 2;
  slots_.assign(size, 0);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    std::size_t at = slot_of(names_[i], size - 1);
    while (slots_[at] != 0) at = (at + 1) & (size - 1);
    slots_[at] = static_cast<std::uint32_t>(i + 1);
  }
}

std::uint32_t NameTable::intern(std::string_view text) {
  if (names_.size() * 2 >= slots_.size()) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = slot_of(text, mask);
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    if (names_[slots_[at] - 1] == text) return slots_[at] - 1;
  }
  names_.emplace_back(text);
  slots_[at] = static_cast<std::uint32_t>(names_.size());
  return slots_[at] - 1;
}

}  // namespace shardscope
