// A picture of memory over time that somebody else recorded.
#pragma once

#include <string>
#include <string_view>

#include "traces/import/memory_curve.h"

namespace shardscope {

/// Bands by category with the peak flagged and what lived at it, as SVG, 1200 px wide.
std::string memory_curve_figure(const MemoryCurve& curve, std::string_view title);

}  // namespace shardscope
