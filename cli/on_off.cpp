#include "cli/on_off.h"

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"

namespace shardscope {

bool parse_on_off(std::string_view text, std::string_view where) {
  if (text == "on") return true;
  if (text == "off") return false;
  throw Error(
      {.where = std::string(where), .what = fmt::format("\"{}\" is none of on, off", text)});
}

}  // namespace shardscope
