// Whether a run fits its device, and how much of the device it leaves free.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/quantities.h"
#include "traces/summary.h"

namespace shardscope {

enum class MemoryFit : std::uint8_t {
  yes,
  tight,  ///< it fits, and leaves less than the margin
  no
};
/// "yes", "tight", "no".
std::string_view name_of(MemoryFit fit);

/// What should stay free of a device unless somebody says otherwise: 4% of it, and at least 1 GiB.
/// PyTorch's allocator is predicted to the byte; CUDA's context, NCCL and libraries, whose memory
/// changes with versions and drivers, are not. The margin is for them, and for other processes.
Bytes usual_margin(Bytes device_memory);

/// "2 GiB", "5%", "0.05" (a share), or "0". Throws Error naming `where`.
Bytes parse_margin(std::string_view text, Bytes device_memory, std::string_view where);

/// The most that is held in any step: arena or reserved bytes, with what lies outside of them.
/// Where a request fails, what it asks for counts, so that this is more than the device has.
Bytes needed_memory(const Summary& summary);
/// Of the device beyond that; below 0 where it does not fit. None where the device is not known.
std::optional<Bytes> free_memory(const Summary& summary);

/// Nine of ten runs need from `low` to `high`.
struct NeededMemory {
  Bytes low, high;
};
/// What is needed, minus and plus the root of the sum of its allowances' squares: their causes are
/// independent. Example: 100 MiB needed, 3 and 4 MiB above: high is 105 MiB. Of a run out of
/// memory, what it would need in the end is not known, so that both ends are `needed_memory`.
NeededMemory memory_band(const Summary& summary);

/// What was asked for, else the larger of the usual one and of the band's part above what is
/// needed; 0 where the device is not known.
Bytes margin_wanted(const Summary& summary);
/// It fits and leaves the margin.
bool leaves_margin(const Summary& summary);
/// Tight where the margin is not left, or the device is smaller than the band's upper end.
MemoryFit memory_fit(const Summary& summary);

}  // namespace shardscope
