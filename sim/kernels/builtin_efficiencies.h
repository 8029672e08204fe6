// Efficiency files that are part of the program: the files of sim/profiles/efficiency.
#pragma once

#include <span>
#include <string_view>

namespace shardscope {

struct BuiltinEfficiency {
  std::string_view name;  ///< "ampere"
  std::string_view text;  ///< the JSON file's
};

/// By name.
std::span<const BuiltinEfficiency> builtin_efficiencies();

}  // namespace shardscope
