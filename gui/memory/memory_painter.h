// Paints memory curves: bands, outlines, lines of limits, flags of peaks, differences.
#pragma once

#include <QPainter>
#include <QPen>
#include <QRectF>
#include <vector>

#include "gui/base/theme.h"
#include "gui/data/memory_picture.h"
#include "gui/data/time_scale.h"
#include "traces/axis.h"

namespace shardscope::gui {

/// How much of the second scenario is shown, and where.
enum class OtherScenario : std::uint8_t { hidden, below, outline };

struct MemoryLook {
  OtherScenario other = OtherScenario::below;
  bool has_difference = true;
  bool reaches_capacity = false;  ///< the scale of bytes goes up to it, however far it is
  bool operator==(const MemoryLook&) const = default;
};

/// Where one stack is drawn.
struct MemoryPlot {
  QRectF area;
  TimeScale scale;
  Axis bytes;
  double pixels = 1;  ///< device pixels in a logical one

  double y_of(Bytes value) const { return bytes.at(value.count); }
  /// Whole device pixels, so that edges are sharp.
  double snapped(double y) const;
  std::size_t columns() const;
  double x_of_column(std::size_t column) const;
};

/// A line across a plot that something may reach.
struct MemoryLimit {
  Bytes bytes;
  QString text;
  QPen pen;
};

class MemoryPainter {
 public:
  MemoryPainter(QPainter& painter, const Theme& theme) : painter_(painter), theme_(theme) {}

  /// Ticks of bytes with their labels at the left, and grid lines.
  void draw_scale(const MemoryPlot& plot);
  /// Filled where `kind` was profiled; of a prediction alone filled faintly, and outlined.
  void draw_bands(const MemoryPlot& plot, const MemorySideCurve& curve, BandSet shown,
                  SideKind kind);
  /// Steps over the bands in the same order, the total on top.
  void draw_outline(const MemoryPlot& plot, const MemorySideCurve& curve, BandSet shown);
  /// The total alone.
  void draw_total(const MemoryPlot& plot, const MemorySideCurve& curve, const QPen& pen);
  /// Reserved and active where they are known, arena and capacity.
  void draw_limits(const MemoryPlot& plot, const ScenarioCurves& curves);
  /// A flag at the peak of the bands that are shown, its label in the strip above the plot.
  void draw_peak(const MemoryPlot& plot, const ScenarioCurves& curves, SideKind kind, QRectF strip);
  void draw_failed_requests(const MemoryPlot& plot, const MemorySideCurve& curve);
  /// Predicted less profiled around a zero line; `selected`: of one band, as a line.
  void draw_difference(const MemoryPlot& plot, const ScenarioCurves& curves);
  void draw_label(QRectF area, const QString& text, Qt::Alignment alignment);

 private:
  std::vector<BandColumn> columns_of(const MemoryPlot& plot, const MemorySideCurve& curve,
                                     const Extremes& totals) const;
  void draw_band_letters(const MemoryPlot& plot, const MemorySideCurve& curve, BandSet shown,
                         SideKind kind, const std::vector<BandColumn>& columns);
  void draw_spread(const MemoryPlot& plot, const MemorySideCurve& curve, BandSet shown,
                   const std::vector<BandColumn>& columns);
  /// Steps through a height of each column; columns without one break the line.
  template <class Height>
  void draw_steps(const MemoryPlot& plot, const std::vector<BandColumn>& columns, Height height,
                  const QPen& pen);
  /// What is held outside of the allocator; the capacity's own line is returned.
  MemoryLimit draw_capacity(const MemoryPlot& plot, const ScenarioCurves& curves);
  void draw_limit_lines(const MemoryPlot& plot, const std::vector<MemoryLimit>& limits);

  QPainter& painter_;
  const Theme& theme_;
};

}  // namespace shardscope::gui
