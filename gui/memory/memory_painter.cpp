#include "gui/memory/memory_painter.h"

#include <QFontMetricsF>
#include <QObject>
#include <QPolygonF>
#include <algorithm>
#include <cmath>

#include "gui/base/text.h"
#include "gui/data/envelope.h"
#include "gui/data/limit_labels.h"
#include "gui/memory/bytes_text.h"

namespace shardscope::gui {
namespace {

/// Valleys of up to twice as many columns are left out of lines, whose strokes would fill them.
constexpr std::size_t closed_columns = 2;

/// Bands lie one on the other: the lower and upper edge of one at a level.
struct BandEdges {
  Bytes lower, upper;
};

BandEdges edges_of(const MemoryLevel& level, BandSet shown, std::size_t band) {
  Bytes lower;
  for (std::size_t below = 0; below < band; ++below)
    if (shown[below]) lower += level.bytes[below];
  return {.lower = lower, .upper = lower + level.bytes[band]};
}

QPen hairline(const QColor& colour, Qt::PenStyle style = Qt::SolidLine) {
  QPen pen(colour, 1, style);
  pen.setCosmetic(true);
  return pen;
}

/// Calls `draw(first, last, value)` for each run of columns of equal value.
template <class Value, class Draw>
void for_each_run(std::size_t count, Value value, Draw draw) {
  for (std::size_t first = 0; first < count;) {
    const auto now = value(first);
    std::size_t last = first + 1;
    while (last < count && value(last) == now) ++last;
    if (now) draw(first, last, *now);
    first = last;
  }
}

}  // namespace

double MemoryPlot::snapped(double y) const { return std::round(y * pixels) / pixels; }

std::size_t MemoryPlot::columns() const {
  return static_cast<std::size_t>(std::max(1.0, std::floor(scale.width * pixels)));
}

double MemoryPlot::x_of_column(std::size_t column) const {
  return scale.left + static_cast<double>(column) * scale.width / static_cast<double>(columns());
}

std::vector<BandColumn> MemoryPainter::columns_of(const MemoryPlot& plot,
                                                  const MemorySideCurve& curve,
                                                  const Extremes& totals) const {
  return band_columns(curve.begins, curve.levels.end, totals, plot.scale.range, plot.columns());
}

void MemoryPainter::draw_label(QRectF area, const QString& text, Qt::Alignment alignment) {
  painter_.drawText(area, static_cast<int>(alignment) | Qt::TextSingleLine, text);
}

void MemoryPainter::draw_scale(const MemoryPlot& plot) {
  const QFontMetricsF metrics(painter_.font());
  for (const Tick& tick : plot.bytes.ticks) {
    const double y = plot.snapped(plot.bytes.at(tick.value));
    painter_.setPen(hairline(theme_.grid));
    painter_.drawLine(QPointF(plot.area.left(), y), QPointF(plot.area.right(), y));
    painter_.setPen(theme_.faint_ink);
    draw_label(QRectF(0, y - metrics.height() / 2, plot.area.left() - 6, metrics.height()),
               text_of(tick.label) + QLatin1Char(' ') + text_of(plot.bytes.unit),
               Qt::AlignRight | Qt::AlignVCenter);
  }
}

void MemoryPainter::draw_bands(const MemoryPlot& plot, const MemorySideCurve& curve, BandSet shown,
                               SideKind kind) {
  const auto columns = columns_of(plot, curve, curve.totals);
  using Run = std::optional<std::pair<double, double>>;
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    if (!shown[band]) continue;
    QColor fill = theme_.of_band(band);
    if (kind == SideKind::predicted) fill.setAlpha(70);
    const auto height = [&](std::size_t i) -> Run {
      if (columns[i].empty()) return std::nullopt;
      const BandEdges edges = edges_of(curve.levels.levels[columns[i].highest], shown, band);
      if (edges.upper == edges.lower) return std::nullopt;
      return std::pair{plot.snapped(plot.y_of(edges.upper)), plot.snapped(plot.y_of(edges.lower))};
    };
    for_each_run(columns.size(), height, [&](std::size_t first, std::size_t last, const auto& y) {
      const double left = plot.x_of_column(first);
      painter_.fillRect(QRectF(left, y.first, plot.x_of_column(last) - left, y.second - y.first),
                        fill);
    });
  }
  draw_spread(plot, curve, shown, columns);
  draw_band_letters(plot, curve, shown, kind, columns);
}

void MemoryPainter::draw_spread(const MemoryPlot& plot, const MemorySideCurve& curve, BandSet shown,
                                const std::vector<BandColumn>& columns) {
  // What a column does not hold all of the time is paler.
  QColor pale = theme_.background;
  pale.setAlpha(110);
  const auto total = [&](std::uint32_t level) {
    return plot.snapped(plot.y_of(curve.levels.levels[level].bytes.total(shown)));
  };
  using Run = std::optional<std::pair<double, double>>;
  const auto height = [&](std::size_t i) -> Run {
    if (columns[i].empty() || columns[i].lowest == columns[i].highest) return std::nullopt;
    return std::pair{total(columns[i].highest), total(columns[i].lowest)};
  };
  for_each_run(columns.size(), height, [&](std::size_t first, std::size_t last, const auto& y) {
    const double left = plot.x_of_column(first);
    painter_.fillRect(QRectF(left, y.first, plot.x_of_column(last) - left, y.second - y.first),
                      pale);
  });
}

void MemoryPainter::draw_band_letters(const MemoryPlot& plot, const MemorySideCurve& curve,
                                      BandSet shown, SideKind kind,
                                      const std::vector<BandColumn>& columns) {
  const QFontMetricsF metrics(painter_.font());
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    if (!shown[band]) continue;
    painter_.setPen(kind == SideKind::predicted ? theme_.ink
                                                : theme_.text_on(theme_.of_band(band)));
    const QString name = text_of(band_name(band));
    const double wide = metrics.horizontalAdvance(name) + 8;
    // The first place that is thick for as long as the name is wide; else the thickest column has
    // the letter.
    std::size_t thickest = 0, run = 0;
    double thickness = 0, run_top = 0, run_bottom = 0;
    bool is_named = false;
    for (std::size_t i = 0; i < columns.size() && !is_named; ++i) {
      if (columns[i].empty()) {
        run = i + 1;
        continue;
      }
      const BandEdges edges = edges_of(curve.levels.levels[columns[i].highest], shown, band);
      const double top = plot.y_of(edges.upper), bottom = plot.y_of(edges.lower);
      if (bottom - top > thickness) {
        thickness = bottom - top;
        thickest = i;
      }
      run_top = run == i ? top : std::max(run_top, top);
      run_bottom = run == i ? bottom : std::min(run_bottom, bottom);
      if (run_bottom - run_top < metrics.height()) run = i + 1;
      const double length = plot.x_of_column(i + 1) - plot.x_of_column(std::min(run, i + 1));
      if (length < wide) continue;
      draw_label(QRectF(plot.x_of_column(run), run_top, length, run_bottom - run_top), name,
                 Qt::AlignCenter);
      is_named = true;
    }
    if (is_named || thickness < metrics.height()) continue;
    const BandEdges edges = edges_of(curve.levels.levels[columns[thickest].highest], shown, band);
    draw_label(QRectF(plot.x_of_column(thickest) - 10, plot.y_of(edges.upper), 20, thickness),
               QString(QLatin1Char(band_letter(band))), Qt::AlignCenter);
  }
}

template <class Height>
void MemoryPainter::draw_steps(const MemoryPlot& plot, const std::vector<BandColumn>& columns,
                               Height height, const QPen& pen) {
  struct Step {
    double left, right, y;
    bool is_joined;  ///< to the one before
  };
  std::vector<Step> steps;
  std::size_t reached = columns.size();
  std::vector<std::optional<double>> heights(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (!columns[i].empty()) heights[i] = -plot.snapped(plot.y_of(height(columns[i].highest)));
  heights = upper_envelope(heights, closed_columns);
  const auto y_of = [&](std::size_t i) -> std::optional<double> {
    return heights[i] ? std::optional(-*heights[i]) : std::nullopt;
  };
  for_each_run(columns.size(), y_of, [&](std::size_t first, std::size_t last, double y) {
    steps.push_back({plot.x_of_column(first), plot.x_of_column(last), y, first == reached});
    reached = last;
  });
  if (pen.style() == Qt::SolidLine) {
    // Rectangles are an order of magnitude faster than strokes, and sharp.
    const double thick = std::max(1.0, std::round(pen.widthF() * plot.pixels)) / plot.pixels;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      painter_.fillRect(QRectF(step.left, step.y, step.right - step.left, thick), pen.color());
      if (!step.is_joined) continue;
      const auto [top, bottom] = std::minmax(step.y, steps[i - 1].y);
      painter_.fillRect(QRectF(step.left, top, thick, bottom - top + thick), pen.color());
    }
    return;
  }
  painter_.setPen(pen);
  QPolygonF line;
  for (const Step& step : steps) {
    if (!step.is_joined && !line.empty()) {
      painter_.drawPolyline(line);
      line.clear();
    }
    line << QPointF(step.left, step.y) << QPointF(step.right, step.y);
  }
  if (!line.empty()) painter_.drawPolyline(line);
}

void MemoryPainter::draw_outline(const MemoryPlot& plot, const MemorySideCurve& curve,
                                 BandSet shown) {
  const auto columns = columns_of(plot, curve, curve.totals);
  const auto& levels = curve.levels.levels;
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    if (!shown[band]) continue;
    QColor edge = theme_.ink;
    edge.setAlpha(90);
    draw_steps(
        plot, columns,
        [&](std::uint32_t level) { return edges_of(levels[level], shown, band).upper; },
        hairline(edge));
  }
  draw_total(plot, curve, QPen(theme_.ink, 2));
}

void MemoryPainter::draw_total(const MemoryPlot& plot, const MemorySideCurve& curve,
                               const QPen& pen) {
  const auto columns = columns_of(plot, curve, curve.totals);
  draw_steps(
      plot, columns, [&](std::uint32_t level) { return Bytes{curve.totals[level]}; }, pen);
}

void MemoryPainter::draw_limit_lines(const MemoryPlot& plot,
                                     const std::vector<MemoryLimit>& limits) {
  const QFontMetricsF metrics(painter_.font());
  std::vector<LimitLine> lines;
  QStringList labels;
  for (const MemoryLimit& limit : limits) {
    const bool is_above = limit.bytes.count > plot.bytes.end;
    const double y = is_above ? plot.area.top() : plot.snapped(plot.y_of(limit.bytes));
    painter_.setPen(limit.pen);
    if (!is_above) painter_.drawLine(QPointF(plot.area.left(), y), QPointF(plot.area.right(), y));
    labels << (is_above ? limit.text + QStringLiteral(" \u2191") : limit.text);
    lines.push_back({.y = y,
                     .width = metrics.horizontalAdvance(labels.back()) + 1,
                     .height = metrics.height()});
  }
  const QRectF& area = plot.area;
  const auto places =
      limit_label_places(lines, {area.left(), area.top(), area.width() - 6, area.height()});
  painter_.setPen(theme_.ink);
  for (std::size_t i = 0; i < places.size(); ++i)
    draw_label(QRectF(places[i].left, places[i].top, places[i].width, places[i].height),
               labels[static_cast<qsizetype>(i)], Qt::AlignRight | Qt::AlignTop);
}

void MemoryPainter::draw_limits(const MemoryPlot& plot, const ScenarioCurves& curves) {
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const std::optional<MemorySideCurve>& side = curves.side(kind);
    if (!side) continue;
    const double width = kind == SideKind::predicted ? 1 : 2;
    const auto line = [&](const Extremes& values, Qt::PenStyle style) {
      if (values.size() == 0) return;
      draw_steps(
          plot, columns_of(plot, *side, values),
          [&](std::uint32_t level) { return Bytes{values[level]}; },
          QPen(theme_.faint_ink, width, style));
    };
    line(side->reserved, Qt::DashLine);
    line(side->active, Qt::DotLine);
  }
  std::vector<MemoryLimit> limits;
  if (curves.arena.count > 0)
    limits.push_back({.bytes = curves.arena,
                      .text = QObject::tr("arena %1").arg(rounded_bytes(curves.arena)),
                      .pen = hairline(theme_.faint_ink, Qt::DashDotLine)});
  if (curves.capacity) limits.push_back(draw_capacity(plot, curves));
  draw_limit_lines(plot, limits);
}

MemoryLimit MemoryPainter::draw_capacity(const MemoryPlot& plot, const ScenarioCurves& curves) {
  const QString text = QObject::tr("capacity %1").arg(rounded_bytes(*curves.capacity));
  const QString outside =
      curves.outside.count > 0
          ? QObject::tr(", %1 of it outside of the allocator").arg(rounded_bytes(curves.outside))
          : QString();
  const Bytes usable = *curves.capacity - curves.outside;
  if (curves.outside.count > 0 && usable.count < plot.bytes.end) {
    const double top = std::max(plot.area.top(), plot.y_of(*curves.capacity));
    painter_.fillRect(QRectF(plot.area.left(), top, plot.area.width(), plot.y_of(usable) - top),
                      theme_.hatch(theme_.grid));
  }
  return {.bytes = *curves.capacity, .text = text + outside, .pen = QPen(theme_.ink, 2)};
}

void MemoryPainter::draw_failed_requests(const MemoryPlot& plot, const MemorySideCurve& curve) {
  const QFontMetricsF metrics(painter_.font());
  for (const FailedRequestMark& mark : curve.failed) {
    const double x = plot.scale.x_of(mark.time);
    if (x < plot.area.left() || x > plot.area.right() + 1) continue;
    painter_.setPen(QPen(theme_.exposed, 2));
    painter_.drawLine(QPointF(x, plot.area.top()), QPointF(x, plot.area.bottom()));
    QString text = QObject::tr("\u2715 out of memory: %1 asked").arg(rounded_bytes(mark.requested));
    if (mark.free) text += QObject::tr(", %1 free").arg(rounded_bytes(*mark.free));
    if (!mark.operation.empty()) text += QObject::tr(", by %1").arg(text_of(mark.operation));
    const double width = metrics.horizontalAdvance(text) + 8;
    const bool is_left = x + width > plot.area.right();
    const QRectF label(is_left ? x - width : x + 2, plot.area.top() + 2 * metrics.height(), width,
                       metrics.height());
    painter_.fillRect(label, theme_.background);
    painter_.setPen(theme_.ink);
    draw_label(label, text, Qt::AlignCenter);
  }
}

}  // namespace shardscope::gui
