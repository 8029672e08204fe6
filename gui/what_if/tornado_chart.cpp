#include "gui/what_if/tornado_chart.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/data/machine_words.h"

namespace shardscope::gui {
namespace {

constexpr int most_rows = 7;

QString name_of_row(const Sensitivity& row) { return gui::text_of(machine_words(row.figure)); }

QString signed_time(Duration time) {
  const QString magnitude = QString::fromStdString(rounded_text(Duration{std::abs(time.ns)}));
  return time.ns == 0 ? magnitude : (time.ns > 0 ? u'+' : u'\u2212') + magnitude;
}

QString tip_of(const Sensitivity& row) {
  return TornadoChart::tr("%1: step time %2 at 1/1.2 of it, %3 at 1.2 times it")
      .arg(name_of_row(row), signed_time(row.lower), signed_time(row.higher));
}

std::int64_t largest_of(const std::vector<Sensitivity>& rows) {
  std::int64_t largest = 1;
  for (const Sensitivity& row : rows)
    largest = std::max({largest, std::abs(row.lower.ns), std::abs(row.higher.ns)});
  return largest;
}

}  // namespace

TornadoChart::TornadoChart(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("What the step time hangs on"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void TornadoChart::show(std::vector<Sensitivity> rows) {
  rows_ = std::move(rows);
  QStringList texts;
  for (const Sensitivity& row : rows_) texts << tip_of(row);
  setAccessibleDescription(texts.join(QStringLiteral("; ")));
  update();
}

int TornadoChart::row_height() const { return fontMetrics().height() + 4; }

QSize TornadoChart::minimumSizeHint() const {
  return {fontMetrics().averageCharWidth() * 60, row_height() * (most_rows + 1)};
}

void TornadoChart::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& theme = theme_of(*this);
  const QFontMetrics metrics = fontMetrics();
  painter.setPen(theme.faint_ink);
  painter.drawText(QRect(0, 0, width(), row_height()), Qt::AlignLeft | Qt::AlignVCenter,
                   rows_.empty() ? tr("Sensitivity: computed when the controls rest")
                                 : tr("Step time with each figure at 1/1.2 (hatched) and 1.2 times "
                                      "(solid) of what it is"));
  const int names = metrics.horizontalAdvance(QStringLiteral("network rate   "));
  const int numbers = metrics.horizontalAdvance(QStringLiteral("+999 ms  "));
  const double middle = names + (width() - names) / 2.0;
  const double half = std::max(1.0, (width() - names) / 2.0 - numbers);
  const auto largest = static_cast<double>(largest_of(rows_));
  int top = row_height();
  for (const Sensitivity& row : rows_) {
    painter.setPen(theme.ink);
    painter.drawText(QRect(0, top, names, row_height()), Qt::AlignLeft | Qt::AlignVCenter,
                     name_of_row(row));
    const auto bar = [&](Duration time, bool solid) {
      const double length = static_cast<double>(time.ns) / largest * half;
      const QRectF box = QRectF(middle, top + 3, length, row_height() - 6).normalized();
      const QColor colour = time.ns > 0 ? theme.more : theme.less;
      painter.setPen(colour);
      painter.setBrush(solid ? QBrush(colour) : theme.hatch(colour));
      painter.drawRect(box);
      painter.setPen(theme.ink);
      const QRectF words(time.ns > 0 ? box.right() + 4 : box.left() - 4 - numbers, top, numbers,
                         row_height());
      if (time.ns != 0)
        painter.drawText(words, (time.ns > 0 ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter,
                         signed_time(time));
    };
    bar(row.lower, false);
    bar(row.higher, true);
    top += row_height();
  }
  painter.setPen(theme.grid);
  painter.drawLine(QPointF(middle, row_height()), QPointF(middle, top));
}

bool TornadoChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = help->pos().y() / row_height() - 1;
  if (row >= 0 && row < static_cast<int>(rows_.size()))
    QToolTip::showText(help->globalPos(), tip_of(rows_[static_cast<std::size_t>(row)]), this);
  return true;
}

}  // namespace shardscope::gui
