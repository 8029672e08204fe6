#include "gui/data/zoom_history.h"

namespace shardscope::gui {

void ZoomHistory::remember(TimeRange range) {
  if (range == current()) return;
  ranges_.resize(current_ + 1);
  ranges_.push_back(range);
  if (ranges_.size() > most_remembered) ranges_.erase(ranges_.begin());
  current_ = ranges_.size() - 1;
}

TimeRange ZoomHistory::undo() {
  if (can_undo()) --current_;
  return current();
}

TimeRange ZoomHistory::redo() {
  if (can_redo()) ++current_;
  return current();
}

}  // namespace shardscope::gui
