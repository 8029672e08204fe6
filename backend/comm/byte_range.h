// How an all-reduce is shared out among ranks.
#pragma once

#include <algorithm>
#include <cstddef>

namespace shardscope {

/// Half-open, in bytes.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

/// The part of `bytes` that `rank` of `ranks` sums: equal whole cache lines, the last ones short or
/// empty. Example: 200 bytes among 3 ranks: 128, 72, 0.
constexpr ByteRange part_of(std::size_t bytes, int rank, int ranks) {
  constexpr std::size_t line = 64;
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t part = (bytes + n * line - 1) / (n * line) * line;
  const std::size_t begin = std::min(bytes, part * static_cast<std::size_t>(rank));
  return {begin, std::min(bytes, begin + part)};
}

}  // namespace shardscope
