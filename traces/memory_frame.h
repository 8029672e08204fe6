// What pictures of memory over time share: the frame, bands that are stacked, and flags of peaks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "traces/axis.h"
#include "traces/svg.h"

namespace shardscope {

inline constexpr double memory_width = 1200, memory_height = 620;
inline constexpr Rectangle memory_plot{.x = 86, .y = 118, .width = 770, .height = 430};
inline constexpr double memory_panel_x = 890;  ///< of the table on the right
inline constexpr double memory_panel_right = 1176;

struct MemoryFrame {
  Axis time;
  Axis bytes;
};
/// Up to `highest` with room above it.
MemoryFrame memory_frame(Duration length, Bytes highest);

/// Bytes by band from `time` to that of the next level.
struct BandLevel {
  Duration time;
  std::vector<Bytes> by;
  Bytes total() const;
};

/// Bands one on the other, the first at the bottom.
struct BandStack {
  std::vector<std::string> colours;
  std::vector<BandLevel> levels;
  Duration length;
};

/// At most one level per pixel column, the highest of each, so that no peak is lost.
std::vector<BandLevel> thinned(const std::vector<BandLevel>& levels, Duration length);

/// The stepped upper edge of the bands up to `through`, left to right.
std::vector<Point> band_edge(const BandStack& stack, const MemoryFrame& frame, std::size_t through);

/// Bands that are never more than 0 are left out.
void fill_bands(Svg& svg, const BandStack& stack, const MemoryFrame& frame);

/// Axes with their labels; `caption` below the time.
void draw_memory_frame(Svg& svg, const MemoryFrame& frame, std::string_view caption);
void draw_memory_baseline(Svg& svg);

/// A flag above the plot, with a pole down to the peak; of what was predicted hollow, else solid.
struct PeakFlag {
  std::string label;
  Duration time;
  Bytes bytes;
  bool is_hollow = false;
  double y = 0;  ///< of its middle
};
void draw_peak_flag(Svg& svg, const MemoryFrame& frame, const PeakFlag& flag);

}  // namespace shardscope
