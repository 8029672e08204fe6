#include "gui/table/cell_delegate.h"

#include <QPainter>
#include <cmath>

#include "gui/base/short_name.h"
#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/table/column_table_model.h"

namespace shardscope::gui {
namespace {

constexpr double margin = 5;  ///< pixels between a cell's edge and its text

/// Length of a bar of the whole scale.
QRectF bar_room(QRectF cell) { return cell.adjusted(2.5, 3.5, -2.5, -3.5); }

void draw_bar(QPainter& painter, QRectF cell, const Column& column, double value,
              const Theme& theme) {
  if (std::isnan(value) || value <= 0 || column.largest <= 0) return;
  QRectF bar = bar_room(cell);
  bar.setWidth(std::max(2.0, bar.width() * std::min(1.0, value / column.largest)));
  QColor colour = theme.accent;
  if (column.look == CellLook::predicted) {
    painter.setPen(QPen(colour, 1, Qt::DashLine));
    painter.setBrush(Qt::NoBrush);
  } else {
    colour.setAlpha(theme.appearance == Appearance::dark ? 90 : 60);
    painter.setPen(Qt::NoPen);
    painter.setBrush(colour);
  }
  painter.drawRect(bar);
}

/// Over what the style drew of a selected row, on which our ink could not be read.
void fill_background(QPainter& painter, QRectF room, const QStyleOptionViewItem& option,
                     const Theme& theme) {
  const bool is_odd = option.features & QStyleOptionViewItem::Alternate;
  painter.fillRect(room, is_odd ? option.palette.alternateBase() : option.palette.base());
  if (option.state & QStyle::State_Selected) painter.fillRect(room, theme.selection);
}

/// Where the dashes of a predicted bar would cross the digits.
void clear_behind(QPainter& painter, QRectF room, Qt::Alignment alignment, const QString& text,
                  const QStyleOptionViewItem& option, const Theme& theme) {
  constexpr double inside_of_dashes = 5;
  QRectF behind = room.adjusted(0, inside_of_dashes, 0, -inside_of_dashes);
  const double width = QFontMetricsF(painter.font()).horizontalAdvance(text) + 2;
  if (text.isEmpty() || width > behind.width()) return;
  if (alignment & Qt::AlignRight)
    behind.setLeft(behind.right() - width);
  else
    behind.setRight(behind.left() + width);
  fill_background(painter, behind, option, theme);
}

/// Orange above 0, blue below, by the root of the share of the column's largest, so that small ones
/// can be seen, too.
void draw_heat(QPainter& painter, QRectF cell, const Column& column, double value,
               const Theme& theme) {
  if (std::isnan(value) || value == 0 || column.largest <= 0) return;
  QColor colour = value > 0 ? theme.more : theme.less;
  colour.setAlphaF(static_cast<float>(0.5 * std::sqrt(std::abs(value) / column.largest)));
  painter.fillRect(cell, colour);
}

void draw_bands(QPainter& painter, QRectF cell, const Column& column, const CategoryBytes& shares,
                const Theme& theme) {
  if (column.largest <= 0) return;
  const QRectF room = bar_room(cell);
  double left = room.left();
  for (const MemoryCategory category : memory_categories) {
    const double width =
        room.width() * static_cast<double>(shares[category].count) / column.largest;
    painter.fillRect(QRectF(left, room.top(), width, room.height()), theme.of(category));
    left += width;
  }
  painter.setBrush(Qt::NoBrush);
  painter.setPen(theme.faint_ink);
  if (left > room.left())
    painter.drawRect(QRectF(room.left(), room.top(), left - room.left(), room.height()));
}

/// Its end is left out where it has more lines than the cell.
void draw_sentence(QPainter& painter, QRectF room, const QString& text) {
  const QFontMetricsF metrics(painter.font());
  const int flags = Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap;
  if (metrics.boundingRect(room, flags, text).height() <= room.height())
    return painter.drawText(room, flags, text);
  const double lines = std::max(1.0, std::floor(room.height() / metrics.lineSpacing()));
  // Lines end at words, so that they are not filled whole.
  constexpr double filled = 0.9;
  painter.drawText(room, flags,
                   metrics.elidedText(text, Qt::ElideRight, filled * lines * room.width()));
}

}  // namespace

CellDelegate::CellDelegate(const ColumnTableModel& model, QObject* parent)
    : QStyledItemDelegate(parent), model_(model) {}

void CellDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                         const QModelIndex& index) const {
  const Theme& theme = option.widget != nullptr ? theme_of(*option.widget) : light_theme();
  const auto place = static_cast<std::size_t>(index.column());
  const Column& column = model_.table().columns[place];
  const std::uint32_t row = model_.row_at(index.row());
  const QRectF cell(option.rect);
  painter->save();
  painter->setClipRect(option.rect);
  fill_background(*painter, cell, option, theme);
  if (!column.shares.empty()) {
    draw_bands(*painter, cell, column, column.shares[row], theme);
  } else if (!column.is_text()) {
    if (column.look == CellLook::difference)
      draw_heat(*painter, cell, column, column.numbers[row], theme);
    else if (column.look != CellLook::plain)
      draw_bar(*painter, cell, column, column.numbers[row], theme);
  }
  if (column.shares.empty()) {
    painter->setPen(theme.ink);
    const auto alignment = Qt::AlignVCenter | (column.is_text() ? Qt::AlignLeft : Qt::AlignRight);
    const QRectF room = cell.adjusted(margin, 0, -margin, 0);
    const bool is_unknown = !column.is_text() && std::isnan(column.numbers[row]);
    if (is_unknown) painter->setPen(theme.faint_ink);
    const QString whole = is_unknown ? QStringLiteral("-") : index.data(Qt::DisplayRole).toString();
    const bool is_dashed = column.look == CellLook::predicted;
    if (is_dashed) clear_behind(*painter, room, alignment, whole, option, theme);
    if (column.is_sentence)
      draw_sentence(*painter, room, whole);
    else
      painter->drawText(room, static_cast<int>(alignment),
                        elided_name(whole, text_of(column.common), option.fontMetrics,
                                    static_cast<int>(room.width())));
    if (shows_changes_) draw_change(*painter, index, option, theme);
  }
  if (index.column() == 0) draw_marks(*painter, cell, index, theme);
  if (option.state & QStyle::State_HasFocus) {
    painter->setPen(QPen(theme.accent, 1));
    painter->setBrush(Qt::NoBrush);
    painter->drawRect(cell.adjusted(0.5, 0.5, -1.5, -1.5));
  }
  painter->restore();
}

void CellDelegate::draw_marks(QPainter& painter, QRectF cell, const QModelIndex& index,
                              const Theme& theme) const {
  const QStringList marks = model_.mark_of(index.row()).split(QLatin1Char(' '), Qt::SkipEmptyParts);
  painter.setRenderHint(QPainter::Antialiasing);
  double right = cell.right() - 3;
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {
    const double side = cell.height() - 8;
    const QRectF chip(right - side, cell.top() + 4, side, side);
    painter.setPen(Qt::NoPen);
    painter.setBrush(*mark == QStringLiteral("B") ? theme.more : theme.accent);
    painter.drawRoundedRect(chip, 3, 3);
    painter.setPen(theme.text_on(painter.brush().color()));
    painter.drawText(chip, Qt::AlignCenter, *mark);
    right = chip.left() - 3;
  }
}

void CellDelegate::draw_change(QPainter& painter, const QModelIndex& index,
                               const QStyleOptionViewItem& option, const Theme& theme) const {
  const QString change = model_.change_text(index);
  if (change.isEmpty()) return;
  QFont small = painter.font();
  small.setPointSizeF(small.pointSizeF() * 0.82);
  painter.setFont(small);
  painter.setPen(theme.faint_ink);
  const QRectF room = QRectF(option.rect).adjusted(margin, 0, 0, 0);
  const auto place = static_cast<std::size_t>(index.column());
  if (model_.table().columns[place].look == CellLook::predicted)
    clear_behind(painter, room, Qt::AlignLeft, change, option, theme);
  painter.drawText(room, Qt::AlignVCenter | Qt::AlignLeft, change);
}

QSize CellDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const Column& column = model_.table().columns[static_cast<std::size_t>(index.column())];
  const int height = option.fontMetrics.height() + 8;
  if (!column.shares.empty()) return {150, height};
  const QString shown = index.data(Qt::DisplayRole).toString();
  const int extra = column.is_text() || column.look == CellLook::difference ? 14 : 56;
  return {option.fontMetrics.horizontalAdvance(shown) + extra, height};
}

}  // namespace shardscope::gui
