#include "gui/table/names_delegate.h"

#include <QApplication>
#include <QPainter>
#include <QStyle>
#include <utility>

#include "gui/base/short_name.h"

namespace shardscope::gui {

NamesDelegate::NamesDelegate(std::function<QString()> common, QObject* parent)
    : QStyledItemDelegate(parent), common_(std::move(common)) {}

void NamesDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                          const QModelIndex& index) const {
  QStyleOptionViewItem named = option;
  initStyleOption(&named, index);
  const QStyle* style = named.widget != nullptr ? named.widget->style() : QApplication::style();
  const int margin = 2 * (style->pixelMetric(QStyle::PM_FocusFrameHMargin, &named) + 1);
  const QRect room = style->subElementRect(QStyle::SE_ItemViewItemText, &named, named.widget);
  named.text = elided_name(named.text, common_(), named.fontMetrics, room.width() - margin);
  style->drawControl(QStyle::CE_ItemViewItem, &named, painter, named.widget);
}

}  // namespace shardscope::gui
