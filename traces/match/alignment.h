// Two sequences laid beside each other so that most of them is alike.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace shardscope {

struct AlignedPair {
  std::uint32_t first = 0, second = 0;  ///< places in the two sequences
  bool operator==(const AlignedPair&) const = default;
};

/// A longest common subsequence of two sequences of these lengths: pairs of places that are
/// `alike`, ascending in both. O((m + n) D) with D the places left over, in bounded memory; where D
/// passes some thousand a common subsequence that need not be a longest one. Source: Myers, An
/// O(ND) Difference Algorithm, Algorithmica 1986. Example: "abcd" and "acxd" share "acd".
std::vector<AlignedPair> align(std::size_t first, std::size_t second,
                               const std::function<bool(std::size_t, std::size_t)>& alike);

}  // namespace shardscope
