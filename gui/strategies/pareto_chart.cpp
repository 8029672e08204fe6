#include "gui/strategies/pareto_chart.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/spoken.h"
#include "gui/base/theme.h"
#include "gui/data/label_places.h"
#include "gui/data/round_ticks.h"

namespace shardscope::gui {
namespace {

constexpr double radius = 5.5;
constexpr double near_enough = 12;  ///< pixels from a point's middle that count as on it
constexpr double left_room = 74, right_room = 16, top_room = 30, bottom_room = 40;
/// A device that has more than so many times the largest peak is named at the edge instead.
constexpr double farthest_capacity = 1.5;

QString text(const std::string& from) { return QString::fromStdString(from); }

struct Extent {
  double least = HUGE_VAL, most = -HUGE_VAL;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool empty() const { return most < least; }
  /// With room on both sides, never below 0.
  Extent widened() const {
    const double room = std::max(0.18 * (most - least), 0.02 * std::max(most, 1.0));
    return {.least = std::max(0.0, least - room), .most = most + room};
  }
};

/// What devices have, ascending, each once.
std::vector<Bytes> capacities_of(const std::vector<StrategyRow>& rows) {
  std::vector<Bytes> all;
  for (const StrategyRow& row : rows)
    if (row.device_memory) all.push_back(*row.device_memory);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

ParetoChart::ParetoChart(QWidget* parent) : QWidget(parent) {
  let_speak(*this);
  setAccessibleName(tr("Memory against step time"));
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
}

void ParetoChart::show(std::vector<StrategyRow> rows, std::vector<QString> marks) {
  rows_ = std::move(rows);
  marks_ = std::move(marks);
  front_ = pareto_front(rows_);
  if (current_ && *current_ >= rows_.size()) current_.reset();
  setAccessibleDescription(tr("%n scenarios", nullptr, static_cast<int>(rows_.size())));
  update();
}

QPointF ParetoChart::Axes::at(double time, double memory) const {
  return {plot.left() + (time - time_begin) / (time_end - time_begin) * plot.width(),
          plot.bottom() - (memory - memory_begin) / (memory_end - memory_begin) * plot.height()};
}

std::optional<QPointF> ParetoChart::Axes::at(const SideFigures* figures) const {
  if (figures == nullptr || !figures->peak || figures->ran_out) return std::nullopt;
  return at(static_cast<double>(figures->step.ns), static_cast<double>(figures->peak->count));
}

ParetoChart::Axes ParetoChart::axes_for(QSize size) const {
  Extent time, memory;
  for (const StrategyRow& row : rows_) {
    for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
      const SideFigures* figures = row.figures(kind);
      if (figures == nullptr || !figures->peak || figures->ran_out) continue;
      time.add(static_cast<double>(figures->step.ns));
      memory.add(static_cast<double>(figures->peak->count));
    }
  }
  Axes axes{.plot =
                QRectF(left_room, top_room, std::max(1.0, size.width() - left_room - right_room),
                       std::max(1.0, size.height() - top_room - bottom_room))};
  if (time.empty()) return axes;
  const double largest_peak = memory.most;
  for (const Bytes capacity : capacities_of(rows_))
    if (static_cast<double>(capacity.count) < farthest_capacity * largest_peak)
      memory.add(static_cast<double>(capacity.count));
  time = time.widened();
  memory = memory.widened();
  axes.time_begin = time.least;
  axes.time_end = time.most;
  axes.memory_begin = memory.least;
  axes.memory_end = memory.most;
  return axes;
}

std::optional<QPointF> ParetoChart::place_of(std::size_t row) const {
  return axes_for(size()).at(rows_[row].figures());
}

void ParetoChart::draw_axes(QPainter& painter, const Axes& axes) const {
  const Theme& theme = theme_of(*this);
  const NumberUnit time = unit_for(Quantity::duration, axes.time_end, axes.time_end);
  const NumberUnit memory = unit_for(Quantity::bytes, axes.memory_end, axes.memory_end);
  const QFontMetrics metrics = painter.fontMetrics();
  const auto label = [](double value, const NumberUnit& unit) {
    return QString::number(value / unit.size, 'g', 6);
  };
  const int across = std::max(2, static_cast<int>(axes.plot.width() / 90));
  for (const double tick :
       round_ticks(axes.time_begin / time.size, axes.time_end / time.size, across)) {
    const double x = axes.at(tick * time.size, 0).x();
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(x, axes.plot.top()), QPointF(x, axes.plot.bottom()));
    painter.setPen(theme.faint_ink);
    painter.drawText(QRectF(x - 50, axes.plot.bottom() + 3, 100, metrics.height()),
                     Qt::AlignHCenter, label(tick * time.size, time));
  }
  const int down = std::max(2, static_cast<int>(axes.plot.height() / 50));
  for (const double tick :
       round_ticks(axes.memory_begin / memory.size, axes.memory_end / memory.size, down)) {
    const double y = axes.at(0, tick * memory.size).y();
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(axes.plot.left(), y), QPointF(axes.plot.right(), y));
    painter.setPen(theme.faint_ink);
    painter.drawText(QRectF(0, y - metrics.height() / 2.0, left_room - 8, metrics.height()),
                     Qt::AlignRight | Qt::AlignVCenter, label(tick * memory.size, memory));
  }
  painter.setPen(theme.ink);
  painter.drawText(
      QRectF(8, 6, axes.plot.right() - 8, metrics.height()), Qt::AlignLeft,
      tr("Peak memory (%1) against step time; best is down left").arg(text(memory.name)));
  painter.drawText(QRectF(axes.plot.left(), axes.plot.bottom() + metrics.height() + 5,
                          axes.plot.width(), metrics.height()),
                   Qt::AlignRight, tr("Step time (%1)").arg(text(time.name)));
}

void ParetoChart::draw_capacity(QPainter& painter, const Axes& axes) const {
  painter.setPen(QPen(theme_of(*this).exposed, 1.5, Qt::DashLine));
  for (const Bytes capacity : capacities_of(rows_)) {
    const auto bytes = static_cast<double>(capacity.count);
    const QString words = tr("a device has %1").arg(text(rounded_text(capacity)));
    const bool is_in_sight = bytes <= axes.memory_end;
    const double y = is_in_sight ? axes.at(0, bytes).y() : axes.plot.top();
    if (is_in_sight) painter.drawLine(QPointF(axes.plot.left(), y), QPointF(axes.plot.right(), y));
    painter.drawText(axes.plot.adjusted(0, y - axes.plot.top() + 2, -4, 0),
                     Qt::AlignRight | Qt::AlignTop,
                     is_in_sight ? words : QStringLiteral("\u2191 ") + words);
    // Larger ones are out of sight, too.
    if (!is_in_sight) break;
  }
}

QPolygonF ParetoChart::front_line(const Axes& axes) const {
  std::vector<QPointF> points;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (front_[i]) points.push_back(*axes.at(rows_[i].figures()));
  std::sort(points.begin(), points.end(),
            [](QPointF a, QPointF b) { return a.x() != b.x() ? a.x() < b.x() : a.y() > b.y(); });
  QPolygonF line;
  for (const QPointF& point : points) {
    // Between two of them the slower one is the best there is.
    if (!line.isEmpty()) line << QPointF(point.x(), line.last().y());
    line << point;
  }
  return line;
}

void ParetoChart::draw_front(QPainter& painter, const Axes& axes) const {
  QColor colour = theme_of(*this).accent;
  colour.setAlpha(150);
  painter.setPen(QPen(colour, 2));
  painter.setBrush(Qt::NoBrush);
  painter.drawPolyline(front_line(axes));
}

void ParetoChart::draw_points(QPainter& painter, const Axes& axes) const {
  const Theme& theme = theme_of(*this);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto predicted = axes.at(rows_[i].figures(SideKind::predicted));
    const auto profiled = axes.at(rows_[i].figures(SideKind::profiled));
    const QColor colour = !rows_[i].fits ? theme.exposed
                          : front_[i]    ? theme.accent
                                         : theme.faint_ink;
    painter.setPen(QPen(colour, 1));
    if (predicted && profiled) painter.drawLine(*predicted, *profiled);
    painter.setPen(QPen(colour, 1.8, rows_[i].is_tried ? Qt::DotLine : Qt::SolidLine));
    painter.setBrush(theme.background);
    if (predicted) painter.drawEllipse(*predicted, radius, radius);
    painter.setBrush(colour);
    if (profiled) painter.drawEllipse(*profiled, radius, radius);
    const auto place = axes.at(rows_[i].figures());
    if (!place) continue;
    painter.setBrush(Qt::NoBrush);
    if (current_ == i && hasFocus()) {
      painter.setPen(QPen(theme.ink, 1, Qt::DotLine));
      painter.drawEllipse(*place, radius + 5, radius + 5);
    }
    if (marks_[i].isEmpty()) continue;
    painter.setPen(QPen(marks_[i].contains(QLatin1Char('B')) ? theme.more : theme.accent, 2));
    painter.drawEllipse(*place, radius + 3, radius + 3);
  }
}

std::vector<std::size_t> ParetoChart::by_importance() const {
  std::vector<std::size_t> order(rows_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(!marks_[a].isEmpty(), bool{front_[a]}) >
           std::pair(!marks_[b].isEmpty(), bool{front_[b]});
  });
  return order;
}

void ParetoChart::draw_labels(QPainter& painter, const Axes& axes) const {
  const Theme& theme = theme_of(*this);
  const QFontMetrics metrics = painter.fontMetrics();
  std::vector<LabelledPoint> points;
  std::vector<QString> labels;
  for (const std::size_t row : by_importance()) {
    const auto place = axes.at(rows_[row].figures());
    if (!place) continue;
    labels.push_back(marks_[row].isEmpty()
                         ? text(rows_[row].label)
                         : marks_[row] + QLatin1Char(' ') + text(rows_[row].label));
    points.push_back({.x = place->x(),
                      .y = place->y(),
                      .radius = radius + 3,
                      .width = metrics.horizontalAdvance(labels.back()) + 2.0,
                      .height = static_cast<double>(metrics.height())});
  }
  const QRectF room = axes.plot.adjusted(2, 2, -2, -2);
  // The front's line is of level and upright pieces.
  std::vector<PlaneRectangle> obstacles;
  const QPolygonF line = front_line(axes);
  for (qsizetype i = 1; i < line.size(); ++i) {
    const QRectF piece = QRectF(line[i - 1], line[i]).normalized().adjusted(-1, -1, 1, 1);
    obstacles.push_back({piece.left(), piece.top(), piece.width(), piece.height()});
  }
  const auto places =
      label_places(points, {room.left(), room.top(), room.width(), room.height()}, obstacles);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    const QRectF box(places[i]->left, places[i]->top, places[i]->width, places[i]->height);
    const QPointF point(points[i].x, points[i].y);
    const QPointF near(std::clamp(point.x(), box.left(), box.right()),
                       std::clamp(point.y(), box.top(), box.bottom()));
    painter.setPen(QPen(theme.faint_ink, 1));
    const QLineF leader(point, near);
    if (leader.length() > points[i].radius + box.height())
      painter.drawLine(leader.pointAt(points[i].radius / leader.length()), near);
    QColor halo = theme.background;
    halo.setAlpha(200);
    painter.fillRect(box, halo);
    painter.setPen(theme.ink);
    painter.drawText(box, Qt::AlignCenter, labels[i]);
  }
}

void ParetoChart::draw(QPainter& painter, QSize size) const {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  const Axes axes = axes_for(size);
  painter.setFont(font());
  const bool is_empty = std::none_of(rows_.begin(), rows_.end(), [&](const StrategyRow& row) {
    return axes.at(row.figures()).has_value();
  });
  if (is_empty) {
    painter.setPen(theme.faint_ink);
    painter.drawText(
        QRect(QPoint(), size), Qt::AlignCenter | Qt::TextWordWrap,
        tr("No memory was recorded. Profile with profile_memory=True, or open a memory "
           "snapshot beside the trace."));
    return;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  draw_axes(painter, axes);
  draw_capacity(painter, axes);
  draw_front(painter, axes);
  draw_points(painter, axes);
  draw_labels(painter, axes);
}

void ParetoChart::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  draw(painter, size());
}

std::optional<std::size_t> ParetoChart::row_at(QPointF at) const {
  const Axes axes = axes_for(size());
  std::optional<std::size_t> nearest;
  double least = near_enough;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    for (const SideKind kind : {SideKind::profiled, SideKind::predicted}) {
      const auto place = axes.at(rows_[i].figures(kind));
      const double distance = place ? QLineF(*place, at).length() : HUGE_VAL;
      if (distance >= least) continue;
      least = distance;
      nearest = i;
    }
  }
  return nearest;
}

void ParetoChart::mouseReleaseEvent(QMouseEvent* event) {
  const auto row = row_at(event->position());
  if (event->button() != Qt::LeftButton || !row) return;
  current_ = row;
  Q_EMIT chosen(*row, event->modifiers());
}

void ParetoChart::keyPressEvent(QKeyEvent* event) {
  const bool is_return = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (is_return && current_) {
    Q_EMIT chosen(*current_, event->modifiers());
    return;
  }
  const bool is_next = event->key() == Qt::Key_Right || event->key() == Qt::Key_Down;
  const bool is_previous = event->key() == Qt::Key_Left || event->key() == Qt::Key_Up;
  if (rows_.empty() || (!is_next && !is_previous)) return QWidget::keyPressEvent(event);
  // By step time, as the points lie from left to right.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (place_of(i)) order.push_back(i);
  if (order.empty()) return;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rows_[a].figures()->step < rows_[b].figures()->step;
  });
  auto at = current_ ? std::find(order.begin(), order.end(), *current_) : order.end();
  if (at == order.end())
    at = order.begin();
  else if (is_next)
    at = at + 1 == order.end() ? at : at + 1;
  else if (at != order.begin())
    --at;
  current_ = *at;
  say(*this, tip_of(*at));
  update();
}

QString ParetoChart::tip_of(std::size_t row) const {
  QString tip = text(rows_[row].label);
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const SideFigures* figures = rows_[row].figures(kind);
    if (figures == nullptr || !figures->peak) continue;
    tip += tr("\n%1: %2 a step, %3 at the peak (%L4 B)")
               .arg(QString::fromUtf8(name_of(kind).data()), text(rounded_text(figures->step)),
                    text(rounded_text(*figures->peak)))
               .arg(static_cast<qlonglong>(figures->peak->count));
  }
  if (front_[row]) tip += tr("\non the front: no other is better in both");
  return tip;
}

bool ParetoChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto row = row_at(help->pos());
  QToolTip::showText(help->globalPos(), row ? tip_of(*row) : QString(), this);
  return true;
}

}  // namespace shardscope::gui
