// What both sides hold at the cursor, to the byte.
#include <QFontDatabase>
#include <QFontMetricsF>
#include <QObject>
#include <algorithm>

#include "gui/base/text.h"
#include "gui/memory/bytes_text.h"
#include "gui/memory/memory_canvas.h"

namespace shardscope::gui {
namespace {

struct ReadOutRow {
  QString name;
  std::optional<Bytes> predicted, profiled;
};

const MemoryLevel* shown_level(const MemoryCanvas& canvas,
                               const std::optional<MemorySideCurve>& curve, double time) {
  if (!curve) return nullptr;
  const auto level = canvas.level_at(*curve, time);
  return level ? &curve->levels.levels[*level] : nullptr;
}

template <class Figure>
ReadOutRow row_of(const QString& name, const MemoryLevel* predicted, const MemoryLevel* profiled,
                  Figure figure) {
  ReadOutRow row{.name = name};
  if (predicted != nullptr) row.predicted = figure(*predicted);
  if (profiled != nullptr) row.profiled = figure(*profiled);
  return row;
}

bool is_empty(const ReadOutRow& row) {
  return row.predicted.value_or(Bytes{}).count == 0 && row.profiled.value_or(Bytes{}).count == 0;
}

std::vector<ReadOutRow> rows_at(const MemoryCanvas& canvas, double time) {
  const ScenarioCurves& curves = *canvas.picture().a;
  const BandSet shown = canvas.picture().shown();
  const MemoryLevel* predicted = shown_level(canvas, curves.predicted, time);
  const MemoryLevel* profiled = shown_level(canvas, curves.profiled, time);
  std::vector<ReadOutRow> rows;
  const auto add = [&](const QString& name, auto figure, bool is_always = false) {
    const ReadOutRow row = row_of(name, predicted, profiled, figure);
    if (is_always || !is_empty(row)) rows.push_back(row);
  };
  if (predicted == nullptr && profiled == nullptr) return rows;
  for (std::size_t band = memory_band_count; band-- > 0;)
    if (shown[band])
      add(QStringLiteral("%1 %2").arg(QLatin1Char(band_letter(band))).arg(text_of(band_name(band))),
          [&](const MemoryLevel& level) { return level.bytes[band]; });
  add(
      QObject::tr("total"), [&](const MemoryLevel& level) { return level.bytes.total(shown); },
      true);
  add(QObject::tr("active"), [](const MemoryLevel& level) { return level.active; });
  add(QObject::tr("reserved"), [](const MemoryLevel& level) { return level.reserved; });
  return rows;
}

QString text_of(const std::optional<Bytes>& bytes) {
  return bytes ? exact_bytes(*bytes) : QStringLiteral("\u2013");
}

/// Name, then what is there of predicted, profiled, their difference, its share; the header first.
std::vector<QStringList> cells_of(const std::vector<ReadOutRow>& rows,
                                  const ScenarioCurves& curves) {
  const bool has_both = curves.predicted && curves.profiled;
  QStringList header{QString()};
  if (curves.predicted) header << QObject::tr("\u25bd predicted");
  if (curves.profiled) header << QObject::tr("\u25bc profiled");
  if (has_both) header << QObject::tr("pred. - prof.") << QObject::tr("of profiled");
  std::vector<QStringList> cells{header};
  for (const ReadOutRow& row : rows) {
    QStringList line{row.name};
    if (curves.predicted) line << text_of(row.predicted);
    if (curves.profiled) line << text_of(row.profiled);
    const bool is_compared = row.predicted && row.profiled;
    const Bytes difference = is_compared ? *row.predicted - *row.profiled : Bytes{};
    if (has_both)
      line << (is_compared ? signed_bytes(difference) : QString())
           << (is_compared ? signed_share(difference, *row.profiled) : QString());
    cells.push_back(line);
  }
  return cells;
}

}  // namespace

QStringList MemoryCanvas::read_out(double time) const {
  QStringList lines;
  if (picture().empty()) return lines;
  const auto rows = rows_at(*this, time);
  if (rows.empty()) return lines;
  for (const QStringList& cells : cells_of(rows, *picture().a))
    lines << cells.join(QLatin1Char('\t'));
  return lines;
}

void MemoryCanvas::draw_read_out(QPainter& painter, const Layout& layout, QSize size) {
  const auto& hover = workspace().cursors().hover;
  if (!hover) return;
  const auto rows = rows_at(*this, *hover);
  if (rows.empty()) return;
  const std::vector<QStringList> cells = cells_of(rows, *picture().a);
  const QFontMetricsF metrics(painter.font());
  const int columns = static_cast<int>(cells.front().size());
  QList<double> widths(columns, 0);
  for (const QStringList& line : cells)
    for (int i = 0; i < columns; ++i)
      widths[i] = std::max(widths[i], metrics.horizontalAdvance(line[i]) + 12);
  double width = 8;
  for (const double part : widths) width += part;
  const double line = metrics.height() + 1, height = line * static_cast<double>(cells.size()) + 8;
  const double x = scale_for(size.width()).x_of(*hover);
  const bool is_left = x + width + 16 > size.width();
  const QRectF box(std::max(layout.plot.left(), is_left ? x - width - 12 : x + 12),
                   layout.plot.top() + 6, width, height);
  const Theme& theme = theme_of(*this);
  painter.setPen(theme.faint_ink);
  painter.setBrush(theme.background);
  painter.drawRoundedRect(box, 4, 4);
  painter.setBrush(Qt::NoBrush);
  double y = box.top() + 4;
  for (const QStringList& row : cells) {
    double left = box.left() + 4;
    painter.setPen(&row == &cells.front() ? theme.faint_ink : theme.ink);
    for (int i = 0; i < columns; ++i) {
      const double part = widths[i];
      painter.drawText(QRectF(left + 4, y, part - 8, line),
                       (i == 0 ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter, row[i]);
      left += part;
    }
    y += line;
  }
}

}  // namespace shardscope::gui
