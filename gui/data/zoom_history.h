// What was shown before, so that a zoom can be undone and done again.
#pragma once

#include <cstddef>
#include <vector>

#include "gui/data/time_range.h"

namespace shardscope::gui {

/// Ranges in the order in which they were shown, at most `most_remembered`.
class ZoomHistory {
 public:
  static constexpr std::size_t most_remembered = 200;

  explicit ZoomHistory(TimeRange first = {}) : ranges_{first} {}

  TimeRange current() const { return ranges_[current_]; }
  bool can_undo() const { return current_ > 0; }
  bool can_redo() const { return current_ + 1 < ranges_.size(); }

  /// Forgets what was undone.
  void remember(TimeRange range);
  /// In place of the current one: the next frame of one movement.
  void replace(TimeRange range) { ranges_[current_] = range; }
  TimeRange undo();  ///< `current()` where there is nothing before it
  TimeRange redo();  ///< `current()` where nothing was undone

 private:
  std::vector<TimeRange> ranges_;
  std::size_t current_ = 0;
};

}  // namespace shardscope::gui
