// The flags of peaks, and the band of differences.
#include <QFontMetricsF>
#include <QObject>
#include <algorithm>
#include <cmath>

#include "gui/base/text.h"
#include "gui/memory/bytes_text.h"
#include "gui/memory/memory_painter.h"

namespace shardscope::gui {
namespace {

/// What, how much, when, and where in the model.
QString peak_text(const ScenarioCurves& curves, SideKind kind, const MemoryLevel& level,
                  Bytes total) {
  QString text = QObject::tr("%1 peak %2 (%3)")
                     .arg(text_of(name_of(kind)), rounded_bytes(total), exact_bytes(total));
  const MemorySideCurve& curve = *curves.side(kind);
  text += QObject::tr(" at %1").arg(
      QString::fromStdString(rounded_text(Duration{static_cast<std::int64_t>(level.begin)})));
  if (curve.source.kind != MemorySource::Kind::rank || !level.operation) return text;
  const Trace& trace = *curves.scenario->side(kind)->ranks[curve.source.index];
  const auto fact =
      std::find_if(trace.facts.begin(), trace.facts.end(),
                   [&](const OperationFacts& f) { return f.operation == level.operation; });
  if (fact == trace.facts.end()) return text;
  text += QStringLiteral(", ") + text_of(fact->name);
  if (!fact->unit.empty()) text += QObject::tr(" (unit %1)").arg(text_of(fact->unit));
  return text;
}

}  // namespace

void MemoryPainter::draw_peak(const MemoryPlot& plot, const ScenarioCurves& curves, SideKind kind,
                              QRectF strip) {
  const std::optional<MemorySideCurve>& curve = curves.side(kind);
  if (!curve || !curve->peak) return;
  const MemoryLevel& level = curve->levels.levels[*curve->peak];
  const Bytes total = level.bytes.total();
  const bool is_solid = kind == SideKind::profiled;
  const QString text = peak_text(curves, kind, level, total);
  const QFontMetricsF metrics(painter_.font());
  const double x = plot.scale.x_of(std::max(level.begin, plot.scale.range.begin));
  const bool is_visible = level.begin < plot.scale.range.end && x >= plot.area.left();
  const double width = metrics.horizontalAdvance(text) + 22;
  const double left =
      std::clamp(x - 6, plot.area.left(), std::max(plot.area.left(), plot.area.right() - width));
  if (is_visible) {
    painter_.setPen(QPen(theme_.ink, 1, is_solid ? Qt::SolidLine : Qt::DashLine));
    painter_.drawLine(QPointF(x, strip.bottom()),
                      QPointF(x, std::max(strip.bottom(), plot.y_of(total))));
  }
  const QPolygonF flag({QPointF(left + 3, strip.top() + 3), QPointF(left + 13, strip.top() + 3),
                        QPointF(left + 8, strip.bottom() - 3)});
  painter_.setPen(QPen(theme_.ink, 1.4));
  painter_.setBrush(is_solid ? QBrush(theme_.ink) : QBrush(Qt::NoBrush));
  painter_.drawPolygon(flag);
  painter_.setBrush(Qt::NoBrush);
  const double room = std::max(0.0, plot.area.right() - left - 18);
  draw_label(QRectF(left + 18, strip.top(), room, strip.height()),
             metrics.elidedText(text, Qt::ElideRight, room), Qt::AlignLeft | Qt::AlignVCenter);
}

void MemoryPainter::draw_difference(const MemoryPlot& plot, const ScenarioCurves& curves) {
  const double zero = plot.snapped(plot.area.center().y());
  painter_.setPen(QPen(theme_.faint_ink, 1));
  painter_.drawLine(QPointF(plot.area.left(), zero), QPointF(plot.area.right(), zero));
  if (curves.difference.size() == 0) return;
  const auto columns = band_columns(curves.pair_begins, curves.pairs_end, curves.difference,
                                    plot.scale.range, plot.columns());
  const auto offset = [&](std::int64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(plot.bytes.end);
    return share * plot.area.height() / 2;
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty()) continue;
    const double x = plot.x_of_column(i), width = plot.x_of_column(i + 1) - x;
    const std::int64_t high = std::max<std::int64_t>(0, curves.difference[columns[i].highest]);
    const std::int64_t low = std::min<std::int64_t>(0, curves.difference[columns[i].lowest]);
    // Never less than a pixel of what is not 0.
    if (high > 0)
      painter_.fillRect(
          QRectF(x, zero - std::max(1.0, offset(high)), width, std::max(1.0, offset(high))),
          theme_.more);
    if (low < 0)
      painter_.fillRect(QRectF(x, zero, width, std::max(1.0, -offset(low))), theme_.less);
  }
  if (curves.selected_difference.size() == 0) return;
  const auto selected = band_columns(curves.pair_begins, curves.pairs_end,
                                     curves.selected_difference, plot.scale.range, plot.columns());
  painter_.setPen(QPen(theme_.ink, 1));
  for (std::size_t i = 0; i < selected.size(); ++i) {
    if (selected[i].empty()) continue;
    const double x = plot.x_of_column(i);
    painter_.drawLine(QPointF(x, zero - offset(curves.selected_difference[selected[i].highest])),
                      QPointF(plot.x_of_column(i + 1),
                              zero - offset(curves.selected_difference[selected[i].lowest])));
  }
}

}  // namespace shardscope::gui
