#include "gui/strategies/small_multiples.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "gui/base/spoken.h"
#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/data/column_table.h"
#include "gui/data/envelope.h"
#include "gui/data/round_ticks.h"
#include "gui/data/time_ticks.h"

namespace shardscope::gui {
namespace {

constexpr int least_width = 300;                      ///< of a cell
constexpr int least_height = 170, most_height = 600;  ///< of a cell
constexpr int legend_line = 20;
constexpr int legend_height = 2 * legend_line + 4;
constexpr double title_height = 20, ribbon_height = 13, gap = 3;
constexpr double axis_width = 64, axis_height = 16;
/// Valleys of up to twice as many pixels are left out of the outline, which would fill them.
constexpr std::size_t closed_pixels = 2;

QString text(const std::string& from) { return QString::fromStdString(from); }

/// What a ribbon's part is, from the bottom of the ribbon up.
struct Part {
  double TimeShares::*share;
  const char* name;
  bool is_hatched;
};
constexpr std::array<Part, 5> parts{{{&TimeShares::compute, "compute", false},
                                     {&TimeShares::overlapped, "overlapped", false},
                                     {&TimeShares::exposed, "exposed", true},
                                     {&TimeShares::copies, "copies", false},
                                     {&TimeShares::idle, "idle", false}}};

QColor colour_of(const Theme& theme, const Part& part) {
  if (part.share == &TimeShares::compute) return theme.of(SpanClass::compute);
  if (part.share == &TimeShares::overlapped) return theme.of(MemoryCategory::gradients);
  if (part.share == &TimeShares::exposed) return theme.exposed;
  if (part.share == &TimeShares::copies) return theme.of(SpanClass::copy);
  return theme.idle;
}

}  // namespace

SmallMultiples::SmallMultiples(QWidget* parent) : QWidget(parent) {
  let_speak(*this);
  setAccessibleName(tr("Every strategy's memory and overlap on one scale"));
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
}

void SmallMultiples::Scale::add(const Multiple& multiple) {
  for (const SideCurve& side : *multiple.sides) {
    // The first one is there in place of nothing.
    shown = shown == TimeRange{} ? side.extent : united(shown, side.extent);
    most_bytes = std::max(most_bytes, side.peak_bytes);
  }
}

void SmallMultiples::show(std::vector<Multiple> multiples) {
  multiples_ = std::move(multiples);
  current_ = 0;
  scale_ = {};
  held_.reset();
  for (const Multiple& multiple : multiples_)
    for (const SideCurve& side : *multiple.sides)
      for (const BandBytes& bytes : side.bands)
        for (std::size_t band = 0; band < memory_band_count; ++band)
          if (bytes[band] > Bytes{}) held_.set(band);
  own_scales_.assign(multiples_.size(), {});
  for (std::size_t i = 0; i < multiples_.size(); ++i) {
    scale_.add(multiples_[i]);
    own_scales_[i].add(multiples_[i]);
  }
  std::vector<std::size_t> as_they_are(multiples_.size());
  std::iota(as_they_are.begin(), as_they_are.end(), std::size_t{0});
  arrange(as_they_are);
  setMinimumHeight(height_for(width()));
  update();
}

void SmallMultiples::set_own_scales(bool are_own) {
  has_own_scales_ = are_own;
  update();
}

const SmallMultiples::Scale& SmallMultiples::scale_of(const Multiple& multiple) const {
  return has_own_scales_ ? own_scales_[static_cast<std::size_t>(&multiple - multiples_.data())]
                         : scale_;
}

void SmallMultiples::mark(const std::vector<QString>& marks) {
  for (std::size_t i = 0; i < std::min(marks.size(), multiples_.size()); ++i)
    multiples_[i].marks = marks[i];
  update();
}

int SmallMultiples::most_columns(int width) const {
  return std::clamp(width / least_width, 1, std::max(1, static_cast<int>(multiples_.size())));
}

int SmallMultiples::columns_for(QSize page) const {
  // Of those that need no scrolling the one whose pictures are largest for their shape.
  constexpr double shape = 2;  // width over height
  const int count = std::max(1, static_cast<int>(multiples_.size()));
  int best = most_columns(page.width());
  double largest = 0;
  for (int columns = 1; columns <= most_columns(page.width()); ++columns) {
    const int rows = (count + columns - 1) / columns;
    const int height = (page.height() - legend_height) / rows;
    if (height < least_height) continue;
    const double size = std::min(static_cast<double>(page.width()) / columns, shape * height);
    if (size <= largest) continue;
    largest = size;
    best = columns;
  }
  return best;
}

int SmallMultiples::height_for(int width) const {
  const int columns = most_columns(width);
  const int rows = (static_cast<int>(multiples_.size()) + columns - 1) / columns;
  return legend_height + std::max(1, rows) * least_height;
}

QRectF SmallMultiples::cell(std::size_t row, QSize page) const {
  const int columns = columns_for(page);
  const int rows = std::max(1, (static_cast<int>(multiples_.size()) + columns - 1) / columns);
  const double cell_width = static_cast<double>(page.width()) / columns;
  const int cell_height =
      std::clamp((page.height() - legend_height) / rows, least_height, most_height);
  const auto at = static_cast<int>(places_[row]);
  return {at % columns * cell_width,
          static_cast<double>(legend_height + at / columns * cell_height), cell_width,
          static_cast<double>(cell_height)};
}

QRectF SmallMultiples::plot(const QRectF& cell) const {
  return cell.adjusted(axis_width, title_height, -12, -6 - axis_height);
}

QString SmallMultiples::clocks_text() const {
  std::set<MemoryClock> clocks;
  for (const Multiple& multiple : multiples_)
    for (const SideCurve& side : *multiple.sides)
      if (!side.memory.empty()) clocks.insert(side.clock);
  QStringList names;
  for (const MemoryClock clock : clocks) names << text_of(name_of(clock));
  return names.join(tr(" or "));
}

void SmallMultiples::draw_legend(QPainter& painter) const {
  const Theme& theme = theme_of(*this);
  const QFontMetrics metrics = painter.fontMetrics();
  double x = 10, y = 2;
  const auto word = [&](const QString& name) {
    painter.setPen(theme.ink);
    painter.drawText(QRectF(x, y, 400, legend_line), Qt::AlignVCenter, name);
    x += metrics.horizontalAdvance(name) + 12;
  };
  const auto sample = [&](const QColor& colour, bool is_solid, bool is_hatched) {
    const QRectF box(x, y + (legend_line - 11) / 2.0, 14, 11);
    if (is_solid) painter.fillRect(box, colour);
    if (is_hatched) painter.fillRect(box, theme.hatch(theme.ink));
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(is_solid ? theme.faint_ink : theme.ink, 1));
    painter.drawRect(box);
    x += 18;
  };
  const bool has_memory = held_.any();
  word(has_memory ? tr("Memory, %1:").arg(clocks_text()) : tr("Memory: none was recorded"));
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    if (!held_[band]) continue;
    sample(theme.of_band(band), true, false);
    word(text_of(band_name(band)));
  }
  x = 10;
  y += legend_line;
  word(tr("Time:"));
  for (const Part& part : parts) {
    if (part.share == &TimeShares::copies) continue;
    sample(colour_of(theme, part), true, part.is_hatched);
    word(QString::fromLatin1(part.name));
  }
  x += 10;
  sample(theme.ink, false, false);
  word(tr("predicted"));
  word(has_own_scales_ ? tr("Each on its own scale") : tr("One scale for all"));
}

/// Memory at the left, time below the ribbons, grid lines in the memory's room.
void SmallMultiples::draw_axes(QPainter& painter, const QRectF& memory, const QRectF& all,
                               const Scale& scale) const {
  const Theme& theme = theme_of(*this);
  const int line = painter.fontMetrics().height();
  const NumberUnit unit = unit_for(Quantity::bytes, scale.most_bytes, scale.most_bytes);
  const int down = std::max(1, static_cast<int>(memory.height() / (2.2 * line)));
  const bool has_memory = scale.most_bytes > Scale().most_bytes;
  for (const double tick :
       has_memory ? round_ticks(0, scale.most_bytes / unit.size, down) : std::vector<double>()) {
    const double y = memory.bottom() - tick * unit.size / scale.most_bytes * memory.height();
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(memory.left(), y), QPointF(memory.right(), y));
    painter.setPen(theme.faint_ink);
    painter.drawText(QRectF(memory.left() - axis_width + 4, y - line / 2.0, axis_width - 9, line),
                     Qt::AlignRight | Qt::AlignVCenter,
                     QStringLiteral("%1 %2").arg(tick, 0, 'g', 4).arg(text(unit.name)));
  }
  // Steps of ticks are rounded up, so that there may be half as many as wanted.
  const int across = std::max(4, static_cast<int>(memory.width() / 70));
  double labelled = memory.left() - axis_width;
  for (const TimeTicks::Tick& tick : time_ticks(scale.shown, across).ticks) {
    const double x =
        memory.left() + (tick.time - scale.shown.begin) / scale.shown.length() * memory.width();
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(x, memory.top()), QPointF(x, all.bottom() + 3));
    painter.setPen(theme.faint_ink);
    const QString label = text(tick.label);
    const double width = painter.fontMetrics().horizontalAdvance(label) + 4;
    if (x + width / 2 > all.right() + 12 || x - width / 2 < labelled) continue;
    labelled = x + width / 2;
    painter.drawText(QRectF(x - width / 2, all.bottom() + 2, width, axis_height),
                     Qt::AlignHCenter | Qt::AlignTop, label);
  }
}

void SmallMultiples::draw_bands(QPainter& painter, const QRectF& room, const SideCurve& side,
                                const Scale& scale, bool is_pale) const {
  const Theme& theme = theme_of(*this);
  const int pixels = static_cast<int>(room.width());
  const auto bands = band_pixels(side, scale.shown, pixels);
  std::array<QColor, memory_band_count> colours;
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    colours[band] = theme.of_band(band);
    if (is_pale) colours[band].setAlpha(110);
  }
  for (int i = 0, next = 0; i < pixels; i = next) {
    const auto& held = bands[static_cast<std::size_t>(i)];
    // What does not change is one rectangle.
    for (next = i + 1; next < pixels && bands[static_cast<std::size_t>(next)] == held;) ++next;
    if (!held) continue;
    double bottom = room.bottom();
    for (std::size_t band = 0; band < memory_band_count; ++band) {
      const double height =
          static_cast<double>((*held)[band].count) / scale.most_bytes * room.height();
      if (height <= 0) continue;
      bottom -= height;
      painter.fillRect(QRectF(room.left() + i, bottom, next - i, height), colours[band]);
    }
  }
}

void SmallMultiples::draw_outline(QPainter& painter, const QRectF& room, const SideCurve& side,
                                  const Scale& scale) const {
  const Theme& theme = theme_of(*this);
  const int pixels = static_cast<int>(room.width());
  const auto most = upper_envelope(memory_pixels(side, scale.shown, pixels), closed_pixels);
  QPolygonF outline;
  const auto add = [&](int pixel, double bytes) {
    const double y = room.bottom() - bytes / scale.most_bytes * room.height();
    if (outline.isEmpty()) outline << QPointF(room.left() + pixel, room.bottom());
    outline << QPointF(room.left() + pixel, y) << QPointF(room.left() + pixel + 1, y);
  };
  for (int i = 0; i < pixels; ++i)
    if (const auto bytes = most[static_cast<std::size_t>(i)]) add(i, *bytes);
  if (outline.isEmpty()) return;
  outline << QPointF(outline.last().x(), room.bottom());
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(theme.background, 3));
  painter.drawPolyline(outline);
  painter.setPen(QPen(theme.ink, 1.4));
  painter.drawPolyline(outline);
}

void SmallMultiples::draw_peak(QPainter& painter, const QRectF& room, const SideCurve& side,
                               const Scale& scale) const {
  const Theme& theme = theme_of(*this);
  if (side.memory.empty()) return;
  const QPointF peak(
      room.left() + (side.peak_axis - scale.shown.begin) / scale.shown.length() * room.width(),
      room.bottom() - side.peak_bytes / scale.most_bytes * room.height());
  const double up = side.kind == SideKind::predicted ? -5 : 0;
  painter.setPen(QPen(theme.ink, 1));
  painter.setBrush(side.kind == SideKind::profiled ? QBrush(theme.ink) : QBrush(theme.background));
  painter.drawPolygon(
      QPolygonF{peak + QPointF(0, up), peak + QPointF(-4, up - 5), peak + QPointF(4, up - 5)});
}

void SmallMultiples::draw_ribbon(QPainter& painter, const QRectF& room, const SideCurve& side,
                                 const Scale& scale) const {
  const Theme& theme = theme_of(*this);
  if (side.ran_out || side.coverage.empty()) {
    painter.setPen(theme.faint_ink);
    return painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter,
                            side.ran_out ? tr("out of memory") : tr("no device recorded"));
  }
  const int pixels = static_cast<int>(room.width());
  const auto shares = time_shares(side, scale.shown, pixels);
  const bool is_predicted = side.kind == SideKind::predicted;
  const QBrush hatch = theme.hatch(theme.ink);
  int last = -1;
  for (int i = 0; i < pixels; ++i) {
    double bottom = room.bottom();
    for (const Part& part : parts) {
      const double height = shares[static_cast<std::size_t>(i)].*part.share * room.height();
      if (height <= 0) continue;
      last = i;
      bottom -= height;
      QColor colour = colour_of(theme, part);
      if (is_predicted) colour.setAlpha(110);
      const QRectF bar(room.left() + i, bottom, 1, height);
      painter.fillRect(bar, colour);
      if (part.is_hatched && !is_predicted) painter.fillRect(bar, hatch);
    }
  }
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(is_predicted ? theme.ink : theme.faint_ink, 1,
                      is_predicted ? Qt::DashLine : Qt::SolidLine));
  if (last >= 0) painter.drawRect(QRectF(room.left(), room.top(), last + 1, room.height()));
}

void SmallMultiples::draw_multiple(QPainter& painter, const QRectF& cell, const Multiple& multiple,
                                   bool is_current) const {
  const Theme& theme = theme_of(*this);
  const QRectF frame = cell.adjusted(3.5, 1.5, -3.5, -2.5);
  const bool is_marked = !multiple.marks.isEmpty();
  const QColor colour = multiple.marks.contains(QLatin1Char('B')) ? theme.more : theme.accent;
  painter.setPen(QPen(is_marked || multiple.is_tried ? colour : theme.grid, is_marked ? 2 : 1,
                      multiple.is_tried ? Qt::DashLine : Qt::SolidLine));
  painter.setBrush(theme.lane);
  painter.drawRect(frame);
  if (is_current && hasFocus()) {
    painter.setPen(QPen(theme.ink, 1, Qt::DotLine));
    painter.drawRect(frame.adjusted(2, 2, -2, -2));
  }
  painter.setPen(theme.ink);
  const QString title =
      is_marked ? multiple.marks + QLatin1Char(' ') + multiple.label : multiple.label;
  painter.drawText(
      QRectF(cell.left() + 10, cell.top() + 3, cell.width() - 20, title_height),
      Qt::AlignLeft | Qt::AlignTop,
      painter.fontMetrics().elidedText(title, Qt::ElideRight, static_cast<int>(cell.width()) - 20));
  const QRectF all = plot(cell);
  const std::vector<SideCurve>& sides = *multiple.sides;
  if (sides.empty()) {
    painter.setPen(theme.faint_ink);
    painter.drawText(all, Qt::AlignCenter,
                     multiple.is_being_read ? tr("reading...") : tr("no trace"));
    return;
  }
  const QRectF memory = all.adjusted(0, 10, 0, -2 * (ribbon_height + gap));
  const bool has_memory =
      std::ranges::any_of(sides, [](const SideCurve& side) { return !side.memory.empty(); });
  if (!has_memory) {
    painter.setPen(theme.faint_ink);
    painter.drawText(
        memory, Qt::AlignCenter | Qt::TextWordWrap,
        tr("No memory in this trace.\nProfile with profile_memory=True, or open a memory "
           "snapshot beside it."));
  }
  const Scale& scale = scale_of(multiple);
  painter.setRenderHint(QPainter::Antialiasing, false);
  draw_axes(painter, memory, all, scale);
  // What was measured, else what was predicted; the outline of the prediction lies over it.
  draw_bands(painter, memory, sides.back(), scale, sides.back().kind == SideKind::predicted);
  for (const SideCurve& side : sides)
    if (side.kind == SideKind::predicted) draw_outline(painter, memory, side, scale);
  for (const SideCurve& side : sides) {
    draw_peak(painter, memory, side, scale);
    const double row = side.kind == SideKind::predicted ? 0 : 1;
    draw_ribbon(painter,
                QRectF(all.left(), memory.bottom() + gap + row * (ribbon_height + gap), all.width(),
                       ribbon_height),
                side, scale);
  }
}

void SmallMultiples::arrange(const std::vector<std::size_t>& rows) {
  if (rows.size() != multiples_.size()) return;
  order_ = rows;
  places_.resize(rows.size());
  for (std::size_t place = 0; place < rows.size(); ++place) places_[rows[place]] = place;
  update();
}

void SmallMultiples::draw(QPainter& painter, QSize size, QRect exposed) const {
  painter.fillRect(exposed, theme_of(*this).background);
  painter.setFont(font());
  if (multiples_.empty()) return;
  draw_legend(painter);
  for (std::size_t i = 0; i < multiples_.size(); ++i) {
    const QRectF place = cell(i, size);
    if (place.intersects(QRectF(exposed)))
      draw_multiple(painter, place, multiples_[i], i == current_);
  }
}

void SmallMultiples::paintEvent(QPaintEvent* event) {
  QPainter painter(this);
  draw(painter, size(), event->rect());
}

void SmallMultiples::resizeEvent(QResizeEvent*) { setMinimumHeight(height_for(width())); }

std::optional<std::size_t> SmallMultiples::row_at(QPointF at) const {
  for (std::size_t i = 0; i < multiples_.size(); ++i)
    if (cell(i, size()).contains(at)) return i;
  return std::nullopt;
}

void SmallMultiples::mouseReleaseEvent(QMouseEvent* event) {
  const auto row = row_at(event->position());
  if (event->button() != Qt::LeftButton || !row) return;
  current_ = *row;
  Q_EMIT chosen(*row, event->modifiers());
}

void SmallMultiples::keyPressEvent(QKeyEvent* event) {
  const auto count = static_cast<std::ptrdiff_t>(multiples_.size());
  const std::ptrdiff_t down = columns_for(size());
  const auto step = [&]() -> std::ptrdiff_t {
    switch (event->key()) {
      case Qt::Key_Left:
        return -1;
      case Qt::Key_Right:
        return 1;
      case Qt::Key_Up:
        return -down;
      case Qt::Key_Down:
        return down;
      default:
        return 0;
    }
  }();
  const bool is_return = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (is_return && current_ < multiples_.size()) return Q_EMIT chosen(current_, event->modifiers());
  if (multiples_.empty()) return QWidget::keyPressEvent(event);
  const std::ptrdiff_t next = static_cast<std::ptrdiff_t>(places_[current_]) + step;
  if (step == 0 || next < 0 || next >= count) return QWidget::keyPressEvent(event);
  current_ = order_[static_cast<std::size_t>(next)];
  say(*this, multiples_[current_].label);
  update();
}

QString SmallMultiples::tip_at(std::size_t row, QPointF at) const {
  const QRectF room = plot(cell(row, size()));
  const TimeRange shown = scale_of(multiples_[row]).shown;
  const double axis = shown.begin + (at.x() - room.left()) / room.width() * shown.length();
  QString tip = multiples_[row].label + QStringLiteral(", ") +
                text(rounded_text(Duration{std::llround(axis)}));
  for (const SideCurve& side : *multiples_[row].sides) {
    const TimeRange here{.begin = axis, .end = axis + shown.length() / room.width()};
    tip +=
        QStringLiteral("\n") + QString::fromUtf8(name_of(side.kind).data()) + QStringLiteral(": ");
    if (const auto bytes = memory_pixels(side, here, 1).front())
      tip += tr("%1 alive, ").arg(text(rounded_text(Bytes{std::llround(*bytes)})));
    tip += tr("peak %1 at %2")
               .arg(text(rounded_text(Bytes{std::llround(side.peak_bytes)})),
                    text(rounded_text(Duration{std::llround(side.peak_axis)})));
    const TimeShares whole = time_shares(side, side.extent, 1).front();
    for (const Part& part : parts)
      if (whole.*part.share > 0)
        tip += tr(", %1 %2%")
                   .arg(QString::fromLatin1(part.name))
                   .arg(whole.*part.share * 100, 0, 'f', 1);
  }
  return tip;
}

bool SmallMultiples::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto row = row_at(help->pos());
  QToolTip::showText(help->globalPos(), row ? tip_at(*row, help->pos()) : QString(), this);
  return true;
}

}  // namespace shardscope::gui
