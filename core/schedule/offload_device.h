// Where what a GPU has no room for is kept.
#pragma once

#include <cstdint>

namespace shardscope {

enum class OffloadDevice : std::uint8_t { none, cpu, nvme };

}  // namespace shardscope
