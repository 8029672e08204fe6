// The arithmetic of a shell's $((...)).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardscope::megatron {

/// Whole numbers with + - * / % and parentheses, 64 deep at most; none where the text is no such
/// thing, where a number does not fit 64 bits, and for a division by 0 or less.
std::optional<std::int64_t> computed(std::string_view text);

}  // namespace shardscope::megatron
