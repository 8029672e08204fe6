// What PYTORCH_ALLOC_CONF sets of the CUDA caching allocator.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/base/quantities.h"

namespace shardscope {

/// Powers of two from 1 MiB up for which the rounding can be set: the last one counts for all
/// above.
inline constexpr int roundup_interval_count = 16;

/// Settings of the native allocator. Defaults and rules: torch 2.15, c10/core/AllocatorConfig.cpp
/// and c10/cuda/CUDAAllocatorConfig.cpp. Options of the host's pinned memory and of CUDA graphs are
/// understood and change nothing here.
struct AllocatorSettings {
  bool expandable_segments = false;
  Bytes large_segment{20'971'520};           ///< segment for requests from 1 MiB up to 10 MiB
  std::optional<Bytes> max_split;            ///< none: every block may be split
  Bytes max_non_split_rounding{20'971'520};  ///< how much larger a block handed out whole may be
  double garbage_collection_threshold = 0;   ///< share of the allowed memory; 0: never
  double memory_fraction = 1;                ///< share of the device that may be reserved
  /// Divisions between two powers of two to which a size is rounded up, by power of two from 1 MiB;
  /// 0 and 1: to 512 bytes.
  std::array<int, roundup_interval_count> roundup_divisions{};

  bool operator==(const AllocatorSettings&) const = default;
};

/// Reads "max_split_size_mb:64,expandable_segments:True". Throws Error that names the option and
/// the value where PyTorch would refuse it; `where` is "PYTORCH_ALLOC_CONF" or an option's name.
AllocatorSettings parse_allocator_settings(std::string_view text, std::string_view where);

}  // namespace shardscope
