#include "gui/base/time_canvas.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/theme.h"
#include "gui/data/time_ticks.h"

namespace shardscope::gui {
namespace {

constexpr double key_zoom = 0.7;       ///< of the range that is left after W
constexpr double key_pan = 0.15;       ///< of the range, by D
constexpr double click_slack = 3;      ///< pixels within which a press is no drag
constexpr double edge_slack = 4;       ///< pixels within which an edge is caught
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
       .text = tr("Zoom to range"),
       .keys = {Qt::Key_Z},
       .run = [this] { workspace_.show(*workspace_.cursors().range); },
       .is_enabled = [this] { return workspace_.cursors().range.has_value(); }},
      {.group = group,
       .text = tr("Range over the selection"),
       .keys = {Qt::Key_R},
       .run = [this] { mark(*workspace_.selection().time); },
       .is_enabled = [this] { return workspace_.selection().time.has_value(); }},
      {.group = group,
       .text = tr("Range over all"),
       .keys = {QKeySequence::SelectAll},
       .run = [this] { mark(workspace_.whole()); }},
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
    line(cursors.range->begin, QPen(theme.accent, 1), {});
    line(cursors.range->end, QPen(theme.accent, 1), {});
  }
  if (cursors.hover) line(*cursors.hover, QPen(theme.faint_ink, 1, Qt::DotLine), {});
  if (cursors.a) line(*cursors.a, QPen(theme.accent, 2), QStringLiteral("1"));
  if (cursors.b) line(*cursors.b, QPen(theme.more, 2, Qt::DashLine), QStringLiteral("2"));
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
  moved_ = false;
  anchor_ = edge_time(*event);
  if (event->button() == Qt::MiddleButton) {
    drag_ = Drag::zoom;
    before_zoom_ = workspace_.cursors();
  } else if (event->button() == Qt::LeftButton && (event->modifiers() & Qt::ShiftModifier)) {
    drag_ = Drag::axis;
  } else if (event->button() == Qt::LeftButton) {
    drag_ = pressed_at_.x() < scale().left ? Drag::none : Drag::range;
    anchor_ = edge_opposite(pressed_at_).value_or(anchor_);
    if (drag_ == Drag::none) click(pressed_at_, event->modifiers());
  }
}

void TimeCanvas::mouseMoveEvent(QMouseEvent* event) {
  const TimeScale now = scale();
  mouse_ = event->position();
  moved_ |= std::abs(mouse_->x() - pressed_at_.x()) > click_slack;
  Cursors cursors = workspace_.cursors();
  if (drag_ == Drag::axis) {
    const double share = (pressed_at_.x() - mouse_->x()) / now.width;
    // The first frame is the step that is undone, the others are of the same movement.
    const bool is_first = workspace_.visible() == pressed_range_;
    workspace_.show(panned(pressed_range_, share),
                    is_first ? Workspace::Remember::yes : Workspace::Remember::no);
  } else if (drag_ == Drag::range || drag_ == Drag::zoom) {
    drag_range(*event, cursors);
  } else {
    const bool on_edge = edge_opposite(*mouse_).has_value();
    setCursor(on_edge ? Qt::SplitHCursor : Qt::ArrowCursor);
  }
  cursors.hover = mouse_->x() < now.left ? std::nullopt : std::optional(now.time_at(mouse_->x()));
  workspace_.set_cursors(cursors);
}

void TimeCanvas::mouseReleaseEvent(QMouseEvent* event) {
  const Drag was = std::exchange(drag_, Drag::none);
  if (was == Drag::range && !moved_) click(event->position(), event->modifiers());
  if (was != Drag::zoom || !before_zoom_) return;
  const auto range = workspace_.cursors().range;
  Cursors cursors = *before_zoom_;
  cursors.hover = workspace_.cursors().hover;
  before_zoom_.reset();
  workspace_.set_cursors(cursors);
  if (moved_ && range) workspace_.show(*range);
}

void TimeCanvas::leaveEvent(QEvent*) {
  mouse_.reset();
  Cursors cursors = workspace_.cursors();
  cursors.hover.reset();
  workspace_.set_cursors(cursors);
}

double TimeCanvas::snapped(double time, QPointF) const { return time; }

double TimeCanvas::edge_time(const QMouseEvent& event) const {
  const TimeScale now = scale();
  const double time = now.time_at(std::max(now.left, event.position().x()));
  return event.modifiers() & Qt::AltModifier ? time : snapped(time, event.position());
}

std::optional<double> TimeCanvas::edge_opposite(QPointF at) const {
  const auto& range = workspace_.cursors().range;
  if (!range || at.x() < scale().left) return std::nullopt;
  const TimeScale now = scale();
  if (std::abs(now.x_of(range->end) - at.x()) <= edge_slack) return range->begin;
  if (std::abs(now.x_of(range->begin) - at.x()) <= edge_slack) return range->end;
  return std::nullopt;
}

void TimeCanvas::drag_range(const QMouseEvent& event, Cursors& cursors) {
  if (!moved_) return;
  const double time = edge_time(event);
  cursors.range = TimeRange{.begin = std::min(anchor_, time), .end = std::max(anchor_, time)};
}

void TimeCanvas::mark(TimeRange range) {
  Cursors cursors = workspace_.cursors();
  cursors.range = range;
  workspace_.set_cursors(cursors);
}

void TimeCanvas::zoom(double factor, double x) {
  workspace_.show(zoomed(workspace_.visible(), factor, scale().time_at(x)));
}

void TimeCanvas::pan(double share) { workspace_.show(panned(workspace_.visible(), share)); }

void TimeCanvas::fit() {
  std::vector<TimeRange> wanted;
  if (const auto& selected = workspace_.selection().time)
    wanted.push_back(with_margin(*selected, 0.5));
  if (const auto& range = workspace_.cursors().range) wanted.push_back(*range);
  wanted.push_back(workspace_.whole());
  for (const TimeRange range : wanted) {
    const TimeRange before = workspace_.visible();
    workspace_.show(range);
    if (workspace_.visible() != before) return;
  }
}

double TimeCanvas::zoom_centre() const {
  const TimeScale now = scale();
  return mouse_ && mouse_->x() >= now.left ? now.time_at(mouse_->x()) : now.range.middle();
}

}  // namespace shardscope::gui
