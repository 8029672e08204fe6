// The known word that a mistyped one probably means.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace shardscope {

/// The word of `known` with the smallest edit distance to `word`, the first of several; none if all
/// are farther than a third of its length (at least 2), or have a part between underscores that is
/// farther than half of the part's length.
std::optional<std::string_view> nearest_word(std::string_view word,
                                             const std::vector<std::string_view>& known);

}  // namespace shardscope
