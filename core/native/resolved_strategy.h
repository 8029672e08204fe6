// A strategy of the native runtime with everything that follows from the world size filled in.
#pragma once

#include <string_view>

#include "core/schedule/strategy.h"

namespace shardscope {

/// Throws Error if `strategy` cannot run on `world` ranks (mesh does not multiply to it, negative
/// sizes, a hybrid without both axes, ...). A mesh of 1 x 1 x 1 means "as the strategy and the
/// world say" and is filled in.
Strategy resolved(Strategy strategy, int world, std::string_view where);

}  // namespace shardscope
