// Names of layers that are alike but for their number.
#pragma once

#include <string>
#include <string_view>

namespace shardscope {

/// Every part of a dotted name that is a number as "*": "transformer.h.3.attn" gives
/// "transformer.h.*.attn".
std::string without_indices(std::string_view name);

}  // namespace shardscope
