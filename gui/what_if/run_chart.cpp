#include "gui/what_if/run_chart.h"

#include <QPainter>
#include <QPolygonF>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/text.h"
#include "gui/base/theme.h"

namespace shardscope::gui {
namespace {

struct Curve {
  QString title;
  std::vector<double> values;  ///< by point
  QColor colour;
  Qt::PenStyle style = Qt::SolidLine;
  std::optional<double> predicted = {};  ///< drawn across, on the scale of the values
};

QString time_text(Duration time) { return gui::text_of(rounded_text(time)); }

void draw(QPainter& painter, const QRectF& box, const Curve& curve, const Theme& theme) {
  painter.setBrush(Qt::NoBrush);  // the curve before this one left its own
  painter.setPen(theme.grid);
  painter.drawRect(box);
  painter.setPen(theme.ink);
  painter.drawText(box.adjusted(6, 2, -6, 0), Qt::AlignRight | Qt::AlignTop, curve.title);
  if (curve.values.empty() && !curve.predicted) return;
  double low = curve.predicted.value_or(HUGE_VAL), high = curve.predicted.value_or(-HUGE_VAL);
  for (const double value : curve.values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double span = std::max(high - low, 1e-12);
  const auto y_of = [&](double value) {
    return box.bottom() - 4 - (value - low) / span * (box.height() - 24);
  };
  if (curve.predicted) {
    const double y = y_of(*curve.predicted);
    painter.setPen(QPen(theme.ink, 1, Qt::DashLine));
    painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y));
    painter.setPen(theme.faint_ink);
    const bool is_high = y < box.center().y();
    painter.drawText(QRectF(box.left() + 6, is_high ? y + 1 : y - 21, box.width() - 12, 20),
                     Qt::AlignLeft | Qt::AlignVCenter, RunChart::tr("predicted"));
  }
  if (curve.values.empty()) return;
  const double last = std::max<double>(1, static_cast<double>(curve.values.size()) - 1);
  QPolygonF line;
  for (std::size_t i = 0; i < curve.values.size(); ++i)
    line << QPointF(box.left() + static_cast<double>(i) / last * box.width(),
                    y_of(curve.values[i]));
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

void RunChart::show(std::vector<RunPoint> points, std::optional<Duration> predicted) {
  points_ = std::move(points);
  predicted_ = predicted;
  QStringList words;
  if (!points_.empty())
    words << tr("step %1, loss %2").arg(points_.back().step).arg(points_.back().loss, 0, 'f', 4);
  if (points_.size() > 1)
    words << tr("step time %1").arg(time_text(step_time(points_, points_.size() - 1)));
  if (predicted_) words << tr("%1 a step were predicted").arg(time_text(*predicted_));
  setAccessibleDescription(words.join(QStringLiteral(", ")));
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
  if (predicted_) {
    time.predicted = predicted_->seconds();
    time.title = tr("step time, %1 predicted").arg(time_text(*predicted_));
  }
  if (points_.size() > 1) {
    const QString now = time_text(step_time(points_, points_.size() - 1));
    time.title = predicted_ ? tr("step time %1, %2 predicted").arg(now, time_text(*predicted_))
                            : tr("step time %1").arg(now);
  }
  const QRectF all = QRectF(rect()).adjusted(1, 1, -1, -1);
  const double half = all.width() / 2 - 4;
  draw(painter, QRectF(all.left(), all.top(), half, all.height()), loss, theme);
  draw(painter, QRectF(all.right() - half, all.top(), half, all.height()), time, theme);
}

}  // namespace shardscope::gui
