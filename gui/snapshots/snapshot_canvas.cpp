#include "gui/snapshots/snapshot_canvas.h"

#include <QEvent>
#include <QFontMetricsF>
#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/text.h"
#include "gui/data/round_ticks.h"

namespace shardscope::gui {
namespace {

constexpr double snapshot_axis_height = 20;
constexpr double address_zoom = 0.8;         ///< of the range that is left after a notch
constexpr double least_seen_bytes = 512;     ///< an allocator's smallest block
constexpr double least_block_height = 0.35;  ///< pixels; lower ones are left out of the picture
constexpr double least_name_width = 64;

QString help_of(const SnapshotAllocations& all, const SnapshotAllocation& block) {
  const QString name = text_of(all.names[block.stack]);
  return QStringLiteral("<b>%1</b><br>%2, %3<br>%4")
      .arg(name.isEmpty() ? SnapshotCanvas::tr("no frame was recorded") : name.toHtmlEscaped(),
           text_of(rounded_text(block.size)), text_of(band_name(block.band)), life_text(block));
}

}  // namespace

QString life_text(const SnapshotAllocation& block) {
  if (block.is_alive_at_end) return SnapshotCanvas::tr("alive when the snapshot was taken");
  if (block.is_from_before) return SnapshotCanvas::tr("there before the first event");
  const Duration life{static_cast<std::int64_t>(block.time.length())};
  return SnapshotCanvas::tr("lived %1").arg(text_of(rounded_text(life)));
}

SnapshotCanvas::SnapshotCanvas(Workspace& workspace, QWidget* parent)
    : TimeCanvas(workspace, parent) {
  setObjectName(QStringLiteral("snapshot_canvas"));
  setAccessibleName(tr("Blocks of memory: addresses over time"));
}

void SnapshotCanvas::show_allocations(std::shared_ptr<const SnapshotAllocations> allocations) {
  all_ = std::move(allocations);
  held_.reset();
  for (const SnapshotAllocation& block : all_->blocks) held_.set(block.band);
  chosen_.reset();
  low_ = 0;
  high_ = std::max(1.0, all_->height);
  update();
}

void SnapshotCanvas::choose(std::optional<std::size_t> block) {
  if (chosen_ == block) return;
  chosen_ = block;
  update();
  Q_EMIT block_chosen();
}

void SnapshotCanvas::go_to(std::size_t block) {
  choose(block);
  const SnapshotAllocation& one = all_->blocks[block];
  const TimeRange seen = workspace().visible();
  if (one.time.end < seen.begin || one.time.begin > seen.end)
    workspace().show({.begin = one.time.middle() - seen.length() / 2,
                      .end = one.time.middle() + seen.length() / 2});
  const auto size = static_cast<double>(one.size.count);
  if (one.bottom + size < low_ || one.bottom > high_) {
    const double half = std::max(size, high_ - low_) / 2;
    show_addresses(one.bottom + size / 2 - half, one.bottom + size / 2 + half);
  }
}

double SnapshotCanvas::y_of(double bottom, int height) const {
  return snapshot_axis_height +
         (height - snapshot_axis_height) * (1 - (bottom - low_) / (high_ - low_));
}

double SnapshotCanvas::bottom_at(double y, int height) const {
  return low_ + (high_ - low_) *
                    (1 - (y - snapshot_axis_height) / std::max(1.0, height - snapshot_axis_height));
}

void SnapshotCanvas::show_addresses(double low, double high) {
  const double whole = std::max(1.0, all_->height);
  const double length = std::clamp(high - low, std::min(least_seen_bytes, whole), whole);
  low_ = std::clamp((low + high - length) / 2, 0.0, whole - length);
  high_ = low_ + length;
  update();
}

void SnapshotCanvas::zoom_addresses(double factor, double centre) {
  show_addresses(centre - (centre - low_) * factor, centre + (high_ - centre) * factor);
}

QRectF SnapshotCanvas::rectangle_of(std::size_t block, QSize size) const {
  const SnapshotAllocation& one = all_->blocks[block];
  const TimeScale now = scale_for(size.width());
  const double left = std::max(now.left, now.x_of(one.time.begin));
  const double right = std::min(now.left + now.width, now.x_of(one.time.end));
  const double top = std::max(
      snapshot_axis_height, y_of(one.bottom + static_cast<double>(one.size.count), size.height()));
  const double bottom = std::min<double>(size.height(), y_of(one.bottom, size.height()));
  if (right < left || bottom < top) return {};
  return QRectF(left, top, std::max(1.0, right - left), std::max(0.0, bottom - top));
}

std::optional<std::size_t> SnapshotCanvas::block_at(QPointF at) const {
  if (at.x() < scale().left || at.y() < snapshot_axis_height) return std::nullopt;
  return all_->at(scale().time_at(at.x()), bottom_at(at.y(), height()));
}

void SnapshotCanvas::click(QPointF at, Qt::KeyboardModifiers) { choose(block_at(at)); }

void SnapshotCanvas::mouseDoubleClickEvent(QMouseEvent* event) {
  const auto block = block_at(event->position());
  if (!block) return;
  choose(block);
  const SnapshotAllocation& one = all_->blocks[*block];
  const auto size = static_cast<double>(one.size.count);
  show_addresses(one.bottom - size, one.bottom + 2 * size);
  workspace().show(with_margin(one.time, 0.5));
}

void SnapshotCanvas::wheelEvent(QWheelEvent* event) {
  if (event->modifiers() & (Qt::ControlModifier | Qt::ShiftModifier))
    return TimeCanvas::wheelEvent(event);
  zoom_addresses(std::pow(address_zoom, event->angleDelta().y() / 120.0),
                 bottom_at(event->position().y(), height()));
  event->accept();
}

bool SnapshotCanvas::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return TimeCanvas::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto block = block_at(help->pos());
  if (block)
    QToolTip::showText(help->globalPos(), help_of(*all_, all_->blocks[*block]), this);
  else
    QToolTip::hideText();
  return true;
}

std::vector<Command> SnapshotCanvas::commands() {
  std::vector<Command> all = TimeCanvas::commands();
  const QString group = tr("Snapshots");
  const auto add = [&](const QString& text, QList<QKeySequence> keys, std::function<void()> run) {
    all.push_back({.group = group, .text = text, .keys = std::move(keys), .run = std::move(run)});
  };
  const auto centre = [this] { return (low_ + high_) / 2; };
  const auto move = [this](double share) {
    show_addresses(low_ + share * (high_ - low_), high_ + share * (high_ - low_));
  };
  add(tr("Zoom into addresses"), {Qt::Key_Plus, Qt::Key_Equal},
      [this, centre] { zoom_addresses(address_zoom, centre()); });
  add(tr("Zoom out of addresses"), {Qt::Key_Minus},
      [this, centre] { zoom_addresses(1 / address_zoom, centre()); });
  add(tr("Higher addresses"), {Qt::Key_Up}, [move] { move(0.2); });
  add(tr("Lower addresses"), {Qt::Key_Down}, [move] { move(-0.2); });
  add(tr("All addresses"), {Qt::Key_Home}, [this] { show_addresses(0, all_->height); });
  return all;
}

void SnapshotCanvas::draw(QPainter& painter, QSize size) {
  const double pixels = painter.device()->devicePixelRatioF();
  const LayerOf wanted{.size = size,
                       .pixels = pixels,
                       .time = workspace().visible(),
                       .low = low_,
                       .high = high_,
                       .allocations = all_.get(),
                       .appearance = theme_of(*this).appearance};
  if (layer_.isNull() || layer_of_ != wanted) {
    layer_ = QPixmap(size * pixels);
    layer_.setDevicePixelRatio(pixels);
    QPainter on(&layer_);
    on.setFont(painter.font());
    draw_layer(on, size);
    layer_of_ = wanted;
  }
  painter.drawPixmap(0, 0, layer_);
  if (chosen_) {
    const QRectF where = rectangle_of(*chosen_, size);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme_of(*this).ink, 2));
    if (!where.isNull()) painter.drawRect(where.adjusted(0, -1, 0, 1));
  }
  draw_cursors(painter, scale_for(size.width()), snapshot_axis_height, size.height());
}

void SnapshotCanvas::draw_layer(QPainter& painter, QSize size) {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  if (all_->blocks.empty()) {
    painter.setPen(theme.faint_ink);
    painter.drawText(QRect(QPoint(), size).adjusted(16, 0, -16, 0),
                     Qt::AlignCenter | Qt::TextWordWrap,
                     all_->segments.empty()
                         ? tr("Open a CUDA memory snapshot (torch.cuda.memory._dump_snapshot) to "
                              "see its blocks here.")
                         : tr("The snapshot has no history: its segments are on the next tab."));
    return;
  }
  draw_axis(painter, scale_for(size.width()), 0, size.height());
  draw_scale(painter, size);
  draw_blocks(painter, size);
}

/// Bytes from the lowest address on; lines where other addresses begin.
void SnapshotCanvas::draw_scale(QPainter& painter, QSize size) const {
  const Theme& theme = theme_of(*this);
  const double left = scale_for(size.width()).left;
  const int wanted = std::max(2, (size.height() - 20) / 60);
  constexpr double mib = 1 << 20, kib = 1 << 10;
  const double unit = high_ - low_ > 4 * mib ? mib : kib;
  for (const double tick : round_ticks(low_ / unit, high_ / unit, wanted)) {
    const double y = std::round(y_of(tick * unit, size.height()));
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(left, y), QPointF(size.width(), y));
    painter.setPen(theme.faint_ink);
    const double top = std::min(y - 9, size.height() - 18.0);
    painter.drawText(QRectF(0, top, left - 6, 18), Qt::AlignRight | Qt::AlignVCenter,
                     QStringLiteral("%1 %2")
                         .arg(tick, 0, 'g', 6)
                         .arg(QLatin1String(unit == mib ? "MiB" : "KiB")));
  }
  for (const AddressRegion& region : all_->regions) {
    if (region.bottom <= low_ || region.bottom >= high_) continue;
    painter.setPen(QPen(theme.faint_ink, 1, Qt::DotLine));
    const double y = std::round(y_of(region.bottom, size.height()));
    painter.drawLine(QPointF(left, y), QPointF(size.width(), y));
  }
}

void SnapshotCanvas::draw_legend(QPainter& painter, QRectF where) const {
  const Theme& theme = theme_of(*this);
  const QFontMetricsF metrics(painter.font());
  double x = where.left() + 6;
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    if (!held_[band]) continue;
    const QString name = text_of(band_name(band));
    painter.fillRect(QRectF(x, where.center().y() - 5, 12, 10), theme.of_band(band));
    painter.setPen(theme.faint_ink);
    painter.drawText(QPointF(x + 17, where.center().y() + metrics.ascent() / 2 - 1), name);
    x += 32 + metrics.horizontalAdvance(name);
  }
}

void SnapshotCanvas::draw_blocks(QPainter& painter, QSize size) {
  const Theme& theme = theme_of(*this);
  const QFontMetricsF metrics(painter.font());
  const double height_of_byte = (size.height() - snapshot_axis_height) / (high_ - low_);
  for (std::size_t i = 0; i < all_->blocks.size(); ++i) {
    const SnapshotAllocation& block = all_->blocks[i];
    // Sorted by size: all others are lower still.
    if (static_cast<double>(block.size.count) * height_of_byte < least_block_height) break;
    const QRectF where = rectangle_of(i, size);
    if (where.isNull()) continue;
    const QColor fill = theme.of_band(block.band);
    const bool has_edge = where.height() > 3 && where.width() > 3;
    painter.fillRect(has_edge ? where.adjusted(0, 0, -1, -1) : where, fill);
    const std::string& name = all_->names[block.stack];
    if (name.empty() || where.width() < least_name_width || where.height() < metrics.height())
      continue;
    painter.setPen(theme.text_on(fill));
    painter.drawText(
        where.adjusted(4, 0, -4, 0), Qt::AlignVCenter | Qt::TextSingleLine,
        metrics.elidedText(text_of(short_frame(name)), Qt::ElideRight, where.width() - 8));
  }
}

}  // namespace shardscope::gui
