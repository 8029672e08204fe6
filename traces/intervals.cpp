#include "traces/intervals.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardscope {
namespace {

bool begins_earlier(TimeWindow a, TimeWindow b) { return a.begin < b.begin; }

/// What a stream ran comes in order, so that the windows of a few streams are as many sequences in
/// order, one among the other. Taking these apart and merging them is much quicker than sorting.
void sort_by_begin(std::vector<TimeWindow>& windows) {
  constexpr std::size_t few = 8;
  std::vector<std::vector<TimeWindow>> sequences;
  for (const TimeWindow window : windows) {
    auto place = std::find_if(sequences.begin(), sequences.end(), [&](const auto& sequence) {
      return sequence.back().begin <= window.begin;
    });
    if (place == sequences.end() && sequences.size() == few)
      return std::sort(windows.begin(), windows.end(), begins_earlier);
    if (place == sequences.end()) place = sequences.emplace(place);
    place->push_back(window);
  }
  windows.clear();
  for (std::vector<TimeWindow>& sequence : sequences) {
    std::vector<TimeWindow> merged;
    merged.reserve(windows.size() + sequence.size());
    std::merge(windows.begin(), windows.end(), sequence.begin(), sequence.end(),
               std::back_inserter(merged), begins_earlier);
    windows = std::move(merged);
  }
}

}  // namespace

TimeWindow clipped(TimeWindow window, TimeWindow limits) {
  const Duration begin = std::max(window.begin, limits.begin);
  return {.begin = begin, .end = std::max(begin, std::min(window.end, limits.end))};
}

IntervalUnion::IntervalUnion(std::vector<TimeWindow> windows) {
  std::erase_if(windows, [](TimeWindow w) { return w.end <= w.begin; });
  if (!std::is_sorted(windows.begin(), windows.end(), begins_earlier)) sort_by_begin(windows);
  for (const TimeWindow& window : windows) {
    if (!windows_.empty() && window.begin <= windows_.back().end) {
      windows_.back().end = std::max(windows_.back().end, window.end);
    } else {
      windows_.push_back(window);
    }
  }
  Duration total;
  for (const TimeWindow& window : windows_) {
    before_.push_back(total);
    total += window.length();
  }
}

Duration IntervalUnion::covered_before(Duration time) const {
  const auto next = std::upper_bound(windows_.begin(), windows_.end(), time,
                                     [](Duration t, TimeWindow w) { return t < w.begin; });
  if (next == windows_.begin()) return {};
  const std::size_t last = static_cast<std::size_t>(next - windows_.begin()) - 1;
  return before_[last] + std::min(time - windows_[last].begin, windows_[last].length());
}

Duration IntervalUnion::covered(TimeWindow window) const {
  if (window.end <= window.begin) return {};
  return covered_before(window.end) - covered_before(window.begin);
}

Duration overlap(const IntervalUnion& a, const IntervalUnion& b) {
  Duration total;
  auto left = a.windows().begin(), right = b.windows().begin();
  while (left != a.windows().end() && right != b.windows().end()) {
    const Duration begin = std::max(left->begin, right->begin);
    const Duration end = std::min(left->end, right->end);
    if (begin < end) total += end - begin;
    left->end < right->end ? ++left : ++right;
  }
  return total;
}

std::vector<TimeWindow> difference(const IntervalUnion& a, const IntervalUnion& b) {
  std::vector<TimeWindow> result;
  std::size_t next = 0;
  for (const TimeWindow& window : a.windows()) {
    Duration at = window.begin;
    while (next < b.windows().size() && b.windows()[next].end <= at) ++next;
    for (std::size_t i = next; i < b.windows().size() && b.windows()[i].begin < window.end; ++i) {
      if (at < b.windows()[i].begin) result.push_back({.begin = at, .end = b.windows()[i].begin});
      at = std::max(at, b.windows()[i].end);
    }
    if (at < window.end) result.push_back({.begin = at, .end = window.end});
  }
  return result;
}

}  // namespace shardscope
