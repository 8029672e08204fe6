// Which of many names is meant by a few letters.
#pragma once

#include <optional>
#include <string_view>

namespace shardscope::gui {

/// How well `typed` names `text`, higher is better; none: its letters do not occur there in this
/// order. Case and blanks do not count; letters that begin words, and that follow one another,
/// weigh more, and a shorter text is the better one of two. Example: "zi" names "Zoom in" better
/// than "Size".
std::optional<int> fuzzy_score(std::string_view typed, std::string_view text);

}  // namespace shardscope::gui
