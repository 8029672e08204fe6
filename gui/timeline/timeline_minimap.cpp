#include "gui/timeline/timeline_minimap.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/theme.h"
#include "gui/data/pixel_edges.h"
#include "gui/timeline/lane_painter.h"

namespace shardscope::gui {

TimelineMinimap::TimelineMinimap(Workspace& workspace, QWidget* parent)
    : QWidget(parent), workspace_(workspace) {
  setAccessibleName(tr("Overview of the whole time"));
  setFocusPolicy(Qt::TabFocus);
  setFixedHeight(30);
  for (const auto signal : {&Workspace::visible_changed, &Workspace::axis_changed})
    connect(&workspace, signal, this, [this] { update(); });
}

void TimelineMinimap::show_data(std::shared_ptr<const TimelineData> prepared) {
  data_ = std::move(prepared);
  hits_.clear();
  strip_ = {};
  update();
}

void TimelineMinimap::show_hits(const SearchHits& found) {
  const std::vector<SearchHit>& hits = found.hits;
  hits_.clear();
  constexpr std::size_t most = 20'000;  // more than pixels
  for (std::size_t i = 0; i < hits.size(); i += 1 + hits.size() / most)
    hits_.push_back(hits[i].time);
  update();
}

double TimelineMinimap::x_of(double time) const {
  const TimeRange whole = workspace_.whole();
  return (time - whole.begin) / std::max(1.0, whole.length()) * width();
}

double TimelineMinimap::time_at(double x) const {
  const TimeRange whole = workspace_.whole();
  return whole.begin + x / std::max(1, width()) * whole.length();
}

void TimelineMinimap::draw_strip() {
  const Theme& theme = theme_of(*this);
  const double ratio = devicePixelRatioF();
  const int pixels = static_cast<int>(std::lround(width() * ratio));
  strip_ = QImage(std::max(1, pixels), std::max(1, static_cast<int>(std::lround(height() * ratio))),
                  QImage::Format_RGB32);
  strip_.fill(theme.background);
  strip_of_ = workspace_.whole();
  LanePainter painter(
      strip_, theme,
      std::vector<QRgb>(static_cast<std::size_t>(strip_.width()), theme.background.rgb()));
  if (!data_->blocks.empty()) {
    const TimelineBlock& first = data_->blocks.front();
    std::vector<std::size_t> sides;
    for (const auto& side : {first.predicted, first.profiled})
      if (side && !data_->sources[*side]->coverage.empty()) sides.push_back(*side);
    int top = 1;
    for (const std::size_t source : sides) {
      const int band = (strip_.height() - 2) / static_cast<int>(sides.size());
      const auto edges = pixel_edges(strip_of_, strip_.width(), data_->maps[source]);
      const bool is_predicted = data_->sources[source]->side == SideKind::predicted;
      painter.ribbon({.left = 0, .top = top, .height = band - 1},
                     data_->sources[source]->coverage.pixels(edges),
                     is_predicted ? LaneLook::hollow : LaneLook::solid);
      top += band;
    }
  }
  strip_.setDevicePixelRatio(ratio);
}

void TimelineMinimap::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) strip_ = {};
  QWidget::changeEvent(event);
}

void TimelineMinimap::paintEvent(QPaintEvent*) {
  const QSize wanted(static_cast<int>(std::lround(width() * devicePixelRatioF())),
                     static_cast<int>(std::lround(height() * devicePixelRatioF())));
  if (strip_.size() != wanted || strip_of_ != workspace_.whole()) draw_strip();
  const Theme& theme = theme_of(*this);
  QPainter painter(this);
  painter.drawImage(QPointF(0, 0), strip_);
  painter.setPen(QPen(theme.more, 1));
  double last = -1;
  for (const double time : hits_) {
    const double x = std::round(x_of(time));
    if (x == last) continue;
    last = x;
    painter.drawLine(QPointF(x, height() / 2.0), QPointF(x, height()));
  }
  QColor veil = theme.background;
  veil.setAlpha(170);
  const double from = x_of(workspace_.visible().begin), to = x_of(workspace_.visible().end);
  painter.fillRect(QRectF(0, 0, from, height()), veil);
  painter.fillRect(QRectF(to, 0, width() - to, height()), veil);
  painter.setPen(QPen(theme.accent, hasFocus() ? 3 : 2));
  painter.drawRect(QRectF(from, 1, std::max(3.0, to - from), height() - 2));
}

void TimelineMinimap::move_to(double x) {
  const TimeRange visible = workspace_.visible();
  const double middle = time_at(x) - grip_, half = visible.length() / 2;
  workspace_.show({.begin = middle - half, .end = middle + half},
                  visible == pressed_range_ ? Workspace::Remember::yes : Workspace::Remember::no);
}

void TimelineMinimap::mousePressEvent(QMouseEvent* event) {
  const TimeRange visible = workspace_.visible();
  const double time = time_at(event->position().x());
  pressed_range_ = visible;
  grip_ = visible.contains(time) ? time - visible.middle() : 0;
  move_to(event->position().x());
}

void TimelineMinimap::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons() & Qt::LeftButton) move_to(event->position().x());
}

void TimelineMinimap::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Left) return workspace_.show(panned(workspace_.visible(), -0.25));
  if (event->key() == Qt::Key_Right) return workspace_.show(panned(workspace_.visible(), 0.25));
  QWidget::keyPressEvent(event);
}

}  // namespace shardscope::gui
