#include "core/base/error.h"

#include <utility>

namespace shardscope {
namespace {

std::string one_line(const Error::Parts& parts) {
  std::string line = parts.where.empty() ? parts.what : parts.where + ": " + parts.what;
  if (!parts.way_out.empty()) line += "; " + parts.way_out;
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  return line;
}

}  // namespace

Error::Error(Parts parts) : std::runtime_error(one_line(parts)), parts_(std::move(parts)) {}

}  // namespace shardscope
