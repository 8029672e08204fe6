// Private pools of the caching allocator, where a host program goes over to them: CUDA graphs keep
// their blocks in such.
#pragma once

#include <string_view>

namespace shardscope {

/// A mark of this name: from here on blocks come from the pool with the mark's number, which no
/// other pool shares segments with; 0: from the usual one. `empty_cache` is of the pool that is its
/// subject.
inline constexpr std::string_view private_pool_mark = "private pool";

}  // namespace shardscope
