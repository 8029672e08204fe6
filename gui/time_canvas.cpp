#include "gui/time_canvas.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "gui/data/time_ticks.h"
#include "gui/theme.h"

namespace shardscope::gui {
namespace {

constexpr double key_zoom = 0.7;       ///< of the range that is left after W
constexpr double key_pan = 0.15;       ///< of the range, by D
constexpr double click_slack = 3;      ///< pixels within which a press is no drag
constexpr double tick_distance = 110;  ///< pixels, about

}  // namespace

TimeCanvas::TimeCanvas(Workspace& workspace, QWidget* parent)
    : QWidget(parent), workspace_(workspace) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  for (const auto signal : {&Workspace::visible_changed, &Workspace::cursors_changed,
                            &Workspace::axis_changed, &Workspace::selection_changed})
    connect(&workspace, signal, this, [this] { update(); });
}

TimeScale TimeCanvas::scale_for(int width) const {
  const double left = label_width();
  return {.range = workspace_.visible(), .left = left, .width = std::max(1.0, width - left)};
}

std::vector<Command> TimeCanvas::commands() {
  const QString group = tr("Time axis");
  return {
      {.group = group,
       .text = tr("Zoom in"),
       .keys = {Qt::Key_W},
       .run = [this] { zoom(key_zoom, scale().x_of(zoom_centre())); }},
      {.group = group,
       .text = tr("Zoom out"),
       .keys = {Qt::Key_S},
       .run = [this] { zoom(1 / key_zoom, scale().x_of(zoom_centre())); }},
      {.group = group,
       .text = tr("Earlier"),
       .keys = {Qt::Key_A},
       .run = [this] { pan(-key_pan); }},
      {.group = group, .text = tr("Later"), .keys = {Qt::Key_D}, .run = [this] { pan(key_pan); }},
      {.group = group,
       .text = tr("Fit selection, range or all"),
       .keys = {Qt::Key_F},
       .run = [this] { fit(); }},
      {.group = group,
       .text = tr("Let go of selection and range"),
       .keys = {Qt::Key_Escape},
       .run = [this] {
         workspace_.select({});
         workspace_.set_cursors({});
       }}};
}

void TimeCanvas::click(QPointF, Qt::KeyboardModifiers) {}

void TimeCanvas::draw_axis(QPainter& painter, const TimeScale& scale, double top,
                           double bottom) const {
  const Theme& theme = theme_of(*this);
  const TimeTicks ticks =
      time_ticks(scale.range, static_cast<int>(std::max(2.0, scale.width / tick_distance)));
  const QFontMetricsF metrics(painter.font());
  for (const TimeTicks::Tick& tick : ticks.ticks) {
    const double x = std::round(scale.x_of(tick.time));
    if (x < scale.left) continue;
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(x, top), QPointF(x, bottom));
    painter.setPen(theme.faint_ink);
    painter.drawText(QPointF(x + 3, top + metrics.ascent() + 1),
                     QString::fromStdString(tick.label));
  }
}

void TimeCanvas::draw_cursors(QPainter& painter, const TimeScale& scale, double top,
                              double bottom) const {
  const Theme& theme = theme_of(*this);
  const Cursors& cursors = workspace_.cursors();
  const auto line = [&](double time, const QPen& pen, const QString& label) {
    const double x = scale.x_of(time);
    if (x < scale.left || x > scale.left + scale.width) return;
    painter.setPen(pen);
    painter.drawLine(QPointF(x, top), QPointF(x, bottom));
    if (!label.isEmpty()) painter.drawText(QPointF(x + 3, bottom - 4), label);
  };
  if (cursors.range) {
    const double from = std::max(scale.left, scale.x_of(cursors.range->begin));
    const double to = std::min(scale.left + scale.width, scale.x_of(cursors.range->end));
    if (to > from) painter.fillRect(QRectF(from, top, to - from, bottom - top), theme.selection);
  }
  if (cursors.hover) line(*cursors.hover, QPen(theme.faint_ink, 1, Qt::DotLine), {});
  if (cursors.a) line(*cursors.a, QPen(theme.accent, 2), QStringLiteral("A"));
  if (cursors.b) line(*cursors.b, QPen(theme.more, 2, Qt::DashLine), QStringLiteral("B"));
}

void TimeCanvas::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  draw(painter, size());
}

void TimeCanvas::keyPressEvent(QKeyEvent* event) {
  const QKeySequence pressed(event->keyCombination());
  for (const Command& command : commands())
    if (command.keys.contains(pressed) && (!command.is_enabled || command.is_enabled()))
      return command.run();
  QWidget::keyPressEvent(event);
}

void TimeCanvas::wheelEvent(QWheelEvent* event) {
  const double notches = (event->angleDelta().y() + event->angleDelta().x()) / 120.0;
  if (event->modifiers() & Qt::ControlModifier) {
    zoom(std::pow(key_zoom, notches), event->position().x());
  } else if (event->modifiers() & Qt::ShiftModifier) {
    pan(-key_pan * notches);
  } else {
    return event->ignore();
  }
  event->accept();
}

void TimeCanvas::mousePressEvent(QMouseEvent* event) {
  pressed_at_ = event->position();
  pressed_range_ = workspace_.visible();
  const bool moves_axis =
      event->button() == Qt::MiddleButton || (event->modifiers() & Qt::ShiftModifier);
  if (moves_axis) {
    drag_ = Drag::axis;
    workspace_.show(panned(pressed_range_, 0));
  } else if (event->button() == Qt::LeftButton) {
    drag_ = Drag::range;
  }
}

void TimeCanvas::mouseMoveEvent(QMouseEvent* event) {
  const TimeScale now = scale();
  mouse_x_ = event->position().x();
  Cursors cursors = workspace_.cursors();
  if (drag_ == Drag::axis) {
    const TimeScale then{.range = pressed_range_, .left = now.left, .width = now.width};
    const double share = (pressed_at_.x() - event->position().x()) / then.width;
    workspace_.show(panned(pressed_range_, share), Workspace::Remember::no);
  } else if (drag_ == Drag::range &&
             std::abs(event->position().x() - pressed_at_.x()) > click_slack) {
    const double from = now.time_at(std::max(now.left, pressed_at_.x()));
    const double to = now.time_at(std::max(now.left, event->position().x()));
    cursors.range = TimeRange{.begin = std::min(from, to), .end = std::max(from, to)};
  }
  cursors.hover = *mouse_x_ < now.left ? std::nullopt : std::optional(now.time_at(*mouse_x_));
  workspace_.set_cursors(cursors);
}

void TimeCanvas::mouseReleaseEvent(QMouseEvent* event) {
  const bool is_click = std::abs(event->position().x() - pressed_at_.x()) <= click_slack;
  if (drag_ == Drag::range && is_click) click(event->position(), event->modifiers());
  drag_ = Drag::none;
}

void TimeCanvas::leaveEvent(QEvent*) {
  mouse_x_.reset();
  Cursors cursors = workspace_.cursors();
  cursors.hover.reset();
  workspace_.set_cursors(cursors);
}

void TimeCanvas::zoom(double factor, double x) {
  workspace_.show(zoomed(workspace_.visible(), factor, scale().time_at(x)));
}

void TimeCanvas::pan(double share) { workspace_.show(panned(workspace_.visible(), share)); }

void TimeCanvas::fit() {
  const auto& selected = workspace_.selection().time;
  const TimeRange close = selected ? with_margin(*selected, 0.5) : workspace_.visible();
  if (selected && workspace_.visible() != close)
    workspace_.show(close);
  else if (workspace_.cursors().range && workspace_.visible() != *workspace_.cursors().range)
    workspace_.show(*workspace_.cursors().range);
  else
    workspace_.show_all();
}

double TimeCanvas::zoom_centre() const {
  const TimeScale now = scale();
  return mouse_x_ && *mouse_x_ >= now.left ? now.time_at(*mouse_x_) : now.range.middle();
}

}  // namespace shardscope::gui
