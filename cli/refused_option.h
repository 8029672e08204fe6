// Options that a runtime has no place for.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace shardscope {

/// Throws Error naming `option` if it was given.
inline void refuse_if(bool given, std::string_view option, std::string_view what,
                      std::string_view way_out = "leave it out, or give another --runtime") {
  if (!given) return;
  throw Error(
      {.where = std::string(option), .what = std::string(what), .way_out = std::string(way_out)});
}

}  // namespace shardscope
