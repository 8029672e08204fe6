#include "core/base/ranks.h"

#include <algorithm>
#include <utility>

namespace shardscope {
namespace {

bool evenly_spaced(const std::vector<int>& ranks) {
  for (std::size_t i = 2; i < ranks.size(); ++i)
    if (ranks[i] - ranks[i - 1] != ranks[1] - ranks[0]) return false;
  return true;
}

}  // namespace

Ranks::Ranks(std::vector<int> ranks) : count_(ranks.size()) {
  if (!ranks.empty() && !evenly_spaced(ranks)) {
    listed_ = std::move(ranks);
    return;
  }
  if (!ranks.empty()) first_ = ranks[0];
  if (ranks.size() > 1) stride_ = ranks[1] - ranks[0];
}

Ranks Ranks::spaced(int first, int stride, std::size_t count) {
  Ranks ranks;
  if (count == 0) return ranks;
  ranks.first_ = first;
  ranks.stride_ = count > 1 ? stride : 1;
  ranks.count_ = count;
  return ranks;
}

std::optional<int> Ranks::stride() const {
  return listed_.empty() ? std::optional(stride_) : std::nullopt;
}

std::optional<std::size_t> Ranks::place_of(int rank) const {
  if (listed_.empty() && stride_ != 0) {
    const int place = (rank - first_) / stride_;
    if (place < 0 || static_cast<std::size_t>(place) >= count_ || first_ + place * stride_ != rank)
      return std::nullopt;
    return static_cast<std::size_t>(place);
  }
  const Iterator found = std::find(begin(), end(), rank);
  return found == end() ? std::nullopt
                        : std::optional(static_cast<std::size_t>(std::distance(begin(), found)));
}

Ranks Ranks::part(std::size_t from, std::size_t count) const {
  if (listed_.empty()) return spaced(first_ + static_cast<int>(from) * stride_, stride_, count);
  const auto first = listed_.begin() + static_cast<std::ptrdiff_t>(from);
  return Ranks(std::vector<int>(first, first + static_cast<std::ptrdiff_t>(count)));
}

}  // namespace shardscope
