// TimeNote: what somebody wrote beside an instant of a trace.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// On the clock of a trace, so that it stays where it is whatever the axis means.
struct TimeNote {
  std::filesystem::path scenario;  ///< by which it was opened
  SideKind side = SideKind::profiled;
  std::size_t rank = 0;  ///< index into Side::ranks
  double clock_ns = 0;   ///< since Trace::base_ns
  std::string text;
  bool operator==(const TimeNote&) const = default;
};

}  // namespace shardscope::gui
