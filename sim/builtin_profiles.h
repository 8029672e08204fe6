// Hardware profiles that are part of the program: the files of sim/profiles.
#pragma once

#include <span>
#include <string_view>

namespace shardscope {

struct BuiltinProfile {
  std::string_view name;  ///< "h100_sxm"
  std::string_view text;  ///< the JSON file's
};

std::span<const BuiltinProfile> builtin_profiles();

}  // namespace shardscope
