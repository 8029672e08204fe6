#include "gui/what_if/run_chart.h"

#include <QPainter>
#include <QPolygonF>
#include <algorithm>
#include <utility>

#include "gui/base/theme.h"

namespace shardscope::gui {
namespace {

struct Curve {
  QString title;
  std::vector<double> values;  ///< by point
  QColor colour;
  Qt::PenStyle style = Qt::SolidLine;
};

void draw(QPainter& painter, const QRectF& box, const Curve& curve, const Theme& theme) {
  painter.setBrush(Qt::NoBrush);  // the curve before this one left its own
  painter.setPen(theme.grid);
  painter.drawRect(box);
  painter.setPen(theme.ink);
  painter.drawText(box.adjusted(6, 2, -6, 0), Qt::AlignRight | Qt::AlignTop, curve.title);
  if (curve.values.empty()) return;
  const auto [low, high] = std::minmax_element(curve.values.begin(), curve.values.end());
  const double span = std::max(*high - *low, 1e-12);
  const double last = std::max<double>(1, static_cast<double>(curve.values.size()) - 1);
  QPolygonF line;
  for (std::size_t i = 0; i < curve.values.size(); ++i)
    line << QPointF(box.left() + static_cast<double>(i) / last * box.width(),
                    box.bottom() - 4 - (curve.values[i] - *low) / span * (box.height() - 24));
  painter.setPen(QPen(curve.colour, 2, curve.style));
  painter.drawPolyline(line);
  painter.setBrush(curve.colour);
  painter.drawEllipse(line.back(), 3, 3);
}

}  // namespace

RunChart::RunChart(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Loss and step time"));
}

QSize RunChart::minimumSizeHint() const { return {200, fontMetrics().height() * 5}; }

void RunChart::show(std::vector<RunPoint> points) {
  points_ = std::move(points);
  if (!points_.empty())
    setAccessibleDescription(
        tr("step %1, loss %2").arg(points_.back().step).arg(points_.back().loss, 0, 'f', 4));
  update();
}

void RunChart::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const Theme& theme = theme_of(*this);
  Curve loss{tr("loss"), {}, theme.accent, Qt::SolidLine};
  Curve time{tr("step time"), {}, theme.more, Qt::DashLine};
  for (std::size_t i = 0; i < points_.size(); ++i) {
    loss.values.push_back(points_[i].loss);
    // The first step has the run's start in it.
    if (i > 0) time.values.push_back(step_time(points_, i).seconds());
  }
  if (!points_.empty()) loss.title = tr("loss %1").arg(points_.back().loss, 0, 'f', 4);
  if (points_.size() > 1)
    time.title =
        tr("step time %1")
            .arg(QString::fromStdString(rounded_text(step_time(points_, points_.size() - 1))));
  const QRectF all = QRectF(rect()).adjusted(1, 1, -1, -1);
  const double half = all.width() / 2 - 4;
  draw(painter, QRectF(all.left(), all.top(), half, all.height()), loss, theme);
  draw(painter, QRectF(all.right() - half, all.top(), half, all.height()), time, theme);
}

}  // namespace shardscope::gui
