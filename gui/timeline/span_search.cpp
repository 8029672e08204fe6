#include "gui/timeline/span_search.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace shardscope::gui {
namespace {

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

class Search {
 public:
  explicit Search(const std::string& text)
      : minds_case_(lowered(text) != text), text_(minds_case_ ? text : lowered(text)) {}

  bool finds(std::string_view name) const {
    return (minds_case_ ? std::string(name) : lowered(name)).find(text_) != std::string::npos;
  }

 private:
  bool minds_case_;
  std::string text_;
};

/// Which of the items of a rank are hits: names are few, spans are many.
class Hits {
 public:
  Hits(const TimelineRank& rank, const Search& search) : rank_(rank) {
    for (const std::string& name : rank.trace->names) span_names_.push_back(search.finds(name));
    if (rank.imported)
      for (const std::string& name : rank.imported->names)
        event_names_.push_back(search.finds(name));
    for (const TimelineSection& section : rank.sections)
      sections_.push_back(search.finds(section.name));
    for (const OperationFacts& facts : rank.trace->facts)
      if (search.finds(facts.unit)) operations_.insert(facts.operation);
  }

  bool has(LaneItems items, std::uint32_t id) const {
    if (items == LaneItems::sections) return sections_[id];
    if (items == LaneItems::events) return event_names_[rank_.imported->events.name[id]];
    const Span& span = rank_.trace->spans[id];
    return span_names_[span.name] || (!operations_.empty() && operations_.contains(span.operation));
  }

 private:
  const TimelineRank& rank_;
  std::vector<bool> span_names_, event_names_, sections_;
  std::set<OperationId> operations_;
};

/// Keeps the first ones, never more than twice as many as are wanted.
class FirstHits {
 public:
  explicit FirstHits(std::size_t most) : most_(most) {}

  void add(const SearchHit& hit) {
    found_.hits.push_back(hit);
    if (found_.hits.size() >= 2 * most_) cut();
  }

  SearchHits sorted() {
    cut();
    std::sort(found_.hits.begin(), found_.hits.end());
    return std::move(found_);
  }

 private:
  void cut() {
    if (found_.hits.size() <= most_) return;
    const auto end = found_.hits.begin() + static_cast<std::ptrdiff_t>(most_);
    std::nth_element(found_.hits.begin(), end, found_.hits.end());
    found_.hits.erase(end, found_.hits.end());
    found_.are_the_first = true;
  }

  std::size_t most_;
  SearchHits found_;
};

}  // namespace

SearchHits search_spans(const TimelineData& data, const std::string& text,
                        const std::stop_token& stop, std::size_t most) {
  if (text.empty()) return {};
  FirstHits found(most);
  const Search search(text);
  for (std::size_t source = 0; source < data.sources.size(); ++source) {
    const TimelineRank& rank = *data.sources[source];
    const Hits hits(rank, search);
    for (std::size_t track = 0; track < rank.tracks.size(); ++track) {
      if (stop.stop_requested()) return {};
      const auto& lanes = rank.tracks[track].lanes;
      for (std::size_t lane = 0; lane < lanes.size(); ++lane)
        for (std::size_t i = 0; i < lanes[lane].size(); ++i)
          if (hits.has(rank.tracks[track].items, lanes[lane].id(i)))
            found.add({.time = data.maps[source].axis_of(static_cast<double>(lanes[lane].begin(i))),
                       .place = {source, track, lane, i}});
    }
  }
  return found.sorted();
}

}  // namespace shardscope::gui
