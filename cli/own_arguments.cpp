#include "cli/own_arguments.h"

#include <algorithm>

#include "core/format/atomic_file.h"

namespace shardscope {

std::vector<std::string> own_arguments() {
  const std::string text = read_whole("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

}  // namespace shardscope
