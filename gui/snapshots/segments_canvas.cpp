#include "gui/snapshots/segments_canvas.h"

#include <QFontMetricsF>
#include <QHelpEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/text.h"
#include "gui/base/theme.h"

namespace shardscope::gui {
namespace {

constexpr double segment_label_width = 250;

}  // namespace

QString block_text(const SnapshotAllocations& all, std::uint32_t number) {
  const SnapshotBlock& block = all.place.snapshot().blocks[number];
  const QString size = text_of(rounded_text(block.size));
  switch (block.state) {
    case SnapshotBlockState::inactive:
      return SegmentsCanvas::tr("%1, free").arg(size);
    case SnapshotBlockState::active_pending_free:
      return SegmentsCanvas::tr("%1, freed, but another stream still uses it").arg(size);
    case SnapshotBlockState::active_allocated:
      break;
  }
  return SegmentsCanvas::tr("%1 (%2 as requested), %3")
      .arg(size, text_of(rounded_text(block.requested)),
           text_of(band_name(all.final_bands[number])));
}

SegmentsCanvas::SegmentsCanvas(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("segments_canvas"));
  setAccessibleName(tr("Segments with their blocks"));
  setMouseTracking(true);
}

void SegmentsCanvas::show_allocations(std::shared_ptr<const SnapshotAllocations> allocations) {
  all_ = std::move(allocations);
  chosen_.reset();
  updateGeometry();
  resize(width(), sizeHint().height());
  update();
}

const SnapshotSegment& SegmentsCanvas::segment(std::size_t row) const {
  return all_->place.snapshot().segments[all_->segments[row]];
}

double SegmentsCanvas::row_height() const { return fontMetrics().height() + 8; }

QSize SegmentsCanvas::sizeHint() const {
  const std::size_t rows = all_ ? all_->segments.size() : 0;
  return {600, static_cast<int>(row_height() * static_cast<double>(rows) + 8)};
}

QSize SegmentsCanvas::minimumSizeHint() const { return {400, sizeHint().height()}; }

QRectF SegmentsCanvas::rectangle_of(std::size_t row, std::uint32_t number) const {
  const SnapshotSegment& of = segment(row);
  const SnapshotBlock& block = all_->place.snapshot().blocks[number];
  const auto longest = static_cast<double>(std::max<std::int64_t>(1, segment(0).total.count));
  const double pixels = (width() - segment_label_width - 8) / longest;
  const double left =
      segment_label_width +
      (static_cast<double>(block.address) - static_cast<double>(of.address)) * pixels;
  return QRectF(left, row_height() * static_cast<double>(row) + 3,
                static_cast<double>(block.size.count) * pixels, row_height() - 5);
}

std::optional<std::uint32_t> SegmentsCanvas::block_at(QPointF at) const {
  const auto row = static_cast<std::size_t>(std::max(0.0, at.y() / row_height()));
  if (!all_ || row >= all_->segments.size()) return std::nullopt;
  const SnapshotSegment& of = segment(row);
  for (std::uint32_t i = 0; i < of.block_count; ++i) {
    const QRectF where = rectangle_of(row, of.first_block + i);
    if (where.left() <= at.x() && at.x() < std::max(where.right(), where.left() + 1))
      return of.first_block + i;
  }
  return std::nullopt;
}

void SegmentsCanvas::paintEvent(QPaintEvent* event) {
  QPainter painter(this);
  painter.fillRect(event->rect(), theme_of(*this).background);
  if (!all_) return;
  const auto first = static_cast<std::size_t>(std::max(0.0, event->rect().top() / row_height()));
  for (std::size_t row = first; row < all_->segments.size(); ++row) {
    if (row_height() * static_cast<double>(row) > event->rect().bottom()) break;
    draw_row(painter, row);
  }
}

void SegmentsCanvas::draw_row(QPainter& painter, std::size_t row) const {
  const Theme& theme = theme_of(*this);
  const MemorySnapshot& snapshot = all_->place.snapshot();
  const SnapshotSegment& of = segment(row);
  const QString type = of.type < snapshot.names.size() ? text_of(snapshot.names[of.type]) : tr("?");
  const qint64 stream =
      of.stream < snapshot.streams.size() ? qint64{snapshot.streams[of.stream]} : 0;
  painter.setPen(theme.ink);
  painter.drawText(
      QRectF(6, row_height() * static_cast<double>(row), segment_label_width - 12, row_height()),
      Qt::AlignVCenter | Qt::TextSingleLine,
      painter.fontMetrics().elidedText(
          tr("%1, %2%3, stream %4")
              .arg(text_of(rounded_text(of.total)), type,
                   of.is_expandable ? tr(", expandable") : QString(), QString::number(stream, 16)),
          Qt::ElideRight, static_cast<int>(segment_label_width - 12)));
  for (std::uint32_t i = 0; i < of.block_count; ++i) {
    const std::uint32_t number = of.first_block + i;
    const SnapshotBlock& block = snapshot.blocks[number];
    const QRectF where = rectangle_of(row, number);
    const QRectF inner = where.width() > 3 ? where.adjusted(0, 0, -1, 0) : where;
    if (block.state == SnapshotBlockState::inactive) {
      painter.fillRect(inner, theme.lane);
      painter.fillRect(inner, theme.hatch(theme.idle));
    } else {
      painter.fillRect(inner, theme.of_band(all_->final_bands[number]));
      if (block.state == SnapshotBlockState::active_pending_free)
        painter.fillRect(inner, theme.hatch(theme.ink));
    }
    if (chosen_ != number) continue;
    painter.setPen(QPen(theme.ink, 2));
    painter.drawRect(where.adjusted(0, 0, -1, 0));
  }
}

void SegmentsCanvas::mousePressEvent(QMouseEvent* event) {
  chosen_ = block_at(event->position());
  update();
  if (chosen_) Q_EMIT block_chosen(*chosen_);
}

bool SegmentsCanvas::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  if (const auto block = block_at(help->pos()))
    QToolTip::showText(help->globalPos(), block_text(*all_, *block), this);
  else
    QToolTip::hideText();
  return true;
}

}  // namespace shardscope::gui
