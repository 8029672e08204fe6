// Words in texts that people wrote: names of GPUs, strategies and precisions.
#pragma once

#include <optional>
#include <string_view>

namespace shardscope {

/// `text` holds `word`, whichever letters are capitals.
bool has_word(std::string_view text, std::string_view word);

/// The number that stands right behind `word` at the beginning of a word of `text`: 2 of "TP1 CP2"
/// for "CP". None where there is none.
std::optional<int> number_after(std::string_view text, std::string_view word);

}  // namespace shardscope
