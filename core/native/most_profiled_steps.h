// The longest window.
#pragma once

namespace shardscope {

/// Steps of one window, and at the end of a run, that are timed operation by operation: so many are
/// held in memory until the last of them is done.
inline constexpr int most_profiled_steps = 1000;

}  // namespace shardscope
