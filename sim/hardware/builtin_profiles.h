// Hardware profiles that are part of the program: the files of sim/profiles.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardscope {

struct BuiltinProfile {
  std::string_view name;  ///< "h100_sxm"
  std::string_view text;  ///< the JSON file's
};

/// By name.
std::span<const BuiltinProfile> builtin_profiles();

/// Null where there is none of this name.
const BuiltinProfile* find_builtin_profile(std::string_view name);

/// What to say to someone who asked for `name`: the nearest one, and all there are.
std::string builtin_profile_advice(std::string_view name);

}  // namespace shardscope
