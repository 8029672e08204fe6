// Spans whose name, or whose unit's name, has a text in it.
#pragma once

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

/// By time, then place. Case counts only where `text` has a capital; an empty text is nowhere.
std::vector<SearchHit> search_spans(const TimelineData& data, const std::string& text,
                                    const std::stop_token& stop = {});

}  // namespace shardscope::gui
