// Names of modules: "transformer.h.0" stands under "transformer.h".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

inline constexpr std::size_t longest_module_name = 500;
inline constexpr std::int64_t most_modules = std::int64_t{1} << 18;

/// "a.b" of "a.b.weight"; "" of "weight".
std::string_view owner_of(std::string_view name);

/// The module of a numbered list that a module stands in: "model.layers.3" of
/// "model.layers.3.mlp"; "" of one that stands in none.
std::string_view numbered_module_of(std::string_view module);

/// Whether a module stands in a numbered list.
inline bool is_of_block(std::string_view module) { return !numbered_module_of(module).empty(); }

/// What is wrong with a name as a path of modules: empty parts, too long; empty: nothing.
std::string complaint_about_name(std::string_view name);

/// The modules that the owners of `names` imply, in pre-order, the root ("") first. Children stand
/// in the order in which they appear; where all their names are numbers, in that of the numbers.
/// Error naming `where` for more than most_modules.
std::vector<std::string> implied_modules(const std::vector<std::string>& names,
                                         std::string_view where);

}  // namespace shardscope
