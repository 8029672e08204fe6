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
/// changes with versions and drivers, are not. The margin is for them.
Bytes usual_margin(Bytes device_memory);

/// "2 GiB", "5%", "0.05" (a share), or "0". Throws Error naming `where`.
Bytes parse_margin(std::string_view text, Bytes device_memory, std::string_view where);

/// The most that is held in any step: arena or reserved bytes, with what lies outside of them.
/// Where a request fails, what it asks for counts, so that this is more than the device has.
Bytes needed_memory(const Summary& summary);
/// Of the device beyond that; below 0 where it does not fit. None where the device is not known.
std::optional<Bytes> free_memory(const Summary& summary);
/// What was asked for, else the usual one; 0 where the device is not known.
Bytes margin_wanted(const Summary& summary);
MemoryFit memory_fit(const Summary& summary);

}  // namespace shardscope
