// Round values along an axis that need not begin at 0.
#pragma once

#include <vector>

namespace shardscope::gui {

/// Multiples of 1, 2 or 5 times a power of ten within [from, to], about `count` of them, ascending;
/// none where `to` is not above `from`. Example: 12 to 31 and 4: 15, 20, 25, 30.
std::vector<double> round_ticks(double from, double to, int count);

}  // namespace shardscope::gui
