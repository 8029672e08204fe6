#include "tests/recordings/ports/annotations.h"

#include <algorithm>

namespace shardscope {

Annotations::Annotations(const ImportedTrace& trace) : trace_(&trace) {
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const std::string_view name = trace.name_of(i);
    const bool is_annotation = events.phase[i] == 'X' && trace.category_of(i) == "user_annotation";
    if (!is_annotation || name.starts_with("ProfilerStep#") || name.starts_with("gloo:")) continue;
    by_thread_[trace.track_of(i).thread.text].push_back(i);
  }
  for (auto& [thread, marks] : by_thread_) {
    std::stable_sort(marks.begin(), marks.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (events.start_ns[a] != events.start_ns[b]) return events.start_ns[a] < events.start_ns[b];
      return events.duration_ns[a] > events.duration_ns[b];
    });
  }
}

std::vector<std::uint32_t> Annotations::around(std::uint32_t event) const {
  std::vector<std::uint32_t> result;
  const auto thread = by_thread_.find(trace_->track_of(event).thread.text);
  if (thread == by_thread_.end()) return result;
  const EventColumns& events = trace_->events;
  for (const std::uint32_t mark : thread->second) {
    if (events.start_ns[mark] > events.start_ns[event]) break;
    if (events.end_ns(mark) >= events.end_ns(event)) result.push_back(mark);
  }
  return result;
}

}  // namespace shardscope
