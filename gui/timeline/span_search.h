// Spans whose name, or whose unit's name, has a text in it.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

struct SearchHit {
  double time = 0;  ///< begin on the axis
  SpanPlace place;
  auto operator<=>(const SearchHit&) const = default;
};

struct SearchHits {
  std::vector<SearchHit> hits;  ///< by time, then place
  bool are_the_first = false;   ///< there are more than these
};

/// More are of no use to who steps from one to the next, and of 10 million spans they would fill
/// the memory.
constexpr std::size_t most_hits = 100'000;

/// The first `most` of them. Case counts only where `text` has a capital; an empty text is
/// nowhere.
SearchHits search_spans(const TimelineData& data, const std::string& text,
                        const std::stop_token& stop = {}, std::size_t most = most_hits);

}  // namespace shardscope::gui
