#include "cli/name_pattern.h"

#include <algorithm>
#include <cstddef>

namespace shardscope {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string without_indices(std::string_view name) {
  std::string result;
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool is_index = !part.empty() && std::all_of(part.begin(), part.end(), is_digit);
    result += is_index ? std::string_view("*") : part;
    if (end < name.size()) result += '.';
    begin = end + 1;
  }
  return result;
}

}  // namespace shardscope
