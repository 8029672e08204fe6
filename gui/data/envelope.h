// The upper edge of a curve that jumps within a few pixels.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace shardscope::gui {

/// `heights` of neighbouring columns without valleys of up to 2 * `reach` columns, which a line
/// would fill with its own strokes. Peaks keep height and width. Empty columns bound it, and what
/// is low beside them is a valley, too. Example, reach 1: 5 1 5 1 1 1 becomes 5 5 5 1 1 1.
std::vector<std::optional<double>> upper_envelope(const std::vector<std::optional<double>>& heights,
                                                  std::size_t reach);

}  // namespace shardscope::gui
