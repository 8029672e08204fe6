// The timeline's rows from top to bottom: which there are, and how high.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

enum class RowKind : std::uint8_t {
  rank,    ///< heading of a block, opens and closes it
  ribbon,  ///< what the device did, stacked to the whole
  memory,  ///< bytes by category over time
  lane,    ///< of a track
  group,   ///< heading of the host's threads
};

struct TimelineRow {
  RowKind kind = RowKind::lane;
  std::string key;                              ///< the same as long as the scenario is open
  std::string label;                            ///< "" of further lanes of a track
  std::string detail = {};                      ///< below it, of memory: its scale
  std::size_t block = 0;                        ///< index into TimelineData::blocks
  std::size_t source = 0, track = 0, lane = 0;  ///< of lanes; ribbons have a source
  SideKind side = SideKind::profiled;
  bool is_ghost = false;
  bool is_open = false;  ///< of headings
  int depth = 0;         ///< in the tree of labels
  double top = 0, height = 0;

  double bottom() const { return top + height; }
  bool is_heading() const { return kind == RowKind::rank || kind == RowKind::group; }
};

/// What of the rows was changed by hand.
struct RowChoices {
  std::set<std::string> toggled;  ///< headings that are not as they were at first
  std::set<std::string> pinned;   ///< rows that stay at the top
  double lane_height = 18;        ///< pixels, 8 to 60
};

struct TimelineRows {
  std::vector<TimelineRow> pinned;  ///< from 0 on
  std::vector<TimelineRow> rows;    ///< from 0 on, below those
  double pinned_height = 0, height = 0;
};

/// Of each block: its heading, the ribbons of both sides, and where it is open their memory, the
/// phases, units and streams, the predicted lanes of a stream directly above the profiled ones,
/// then the host. The first block of each scenario is open.
TimelineRows lay_out_rows(const TimelineData& data, const RowChoices& choices);

/// The row at that height; null: none.
const TimelineRow* row_at(const std::vector<TimelineRow>& rows, double y);

}  // namespace shardscope::gui
