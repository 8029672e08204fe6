#include "gui/memory/figures_panel.h"

#include <QAction>
#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/base/theme.h"
#include "gui/base/view.h"

namespace shardscope::gui {
namespace {

/// A bar from the middle, to the right where the figure is positive.
class BarDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override {
    const QVariant number = index.data(View::number_role);
    if (!number.isValid() || option.widget == nullptr) return;
    const Theme& theme = theme_of(*option.widget);
    const double share = std::clamp(number.toDouble(), -1.0, 1.0);
    const QRectF area = QRectF(option.rect).adjusted(4, 4, -4, -4);
    const double middle = area.center().x();
    painter->fillRect(QRectF(middle, area.top(), 1, area.height()), theme.faint_ink);
    const double width = share * area.width() / 2;
    if (share != 0)
      painter->fillRect(
          QRectF(std::min(middle, middle + width), area.top(), std::abs(width), area.height()),
          share > 0 ? theme.more : theme.less);
  }
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override {
    return {90, 20};
  }
};

}  // namespace

FiguresPanel::FiguresPanel(const QString& name, const QStringList& header, int bar_column,
                           QWidget* parent)
    : QWidget(parent),
      label_(new QLabel(this)),
      model_(new CellsModel(header, this)),
      table_(new QTableView(this)) {
  label_->setWordWrap(true);
  label_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  table_->setModel(model_);
  table_->setAccessibleName(name);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setAlternatingRowColors(true);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(22);
  table_->setTabKeyNavigation(false);
  table_->setSortingEnabled(true);
  table_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  if (bar_column >= 0) table_->setItemDelegateForColumn(bar_column, new BarDelegate(table_));
  auto* copying = new QAction(tr("Copy rows"), table_);
  copying->setShortcut(QKeySequence::Copy);
  copying->setShortcutContext(Qt::WidgetShortcut);
  table_->addAction(copying);
  table_->setContextMenuPolicy(Qt::ActionsContextMenu);
  connect(copying, &QAction::triggered, this, [this] {
    QGuiApplication::clipboard()->setText(
        rows_as_tsv(*model_, table_->selectionModel()->selectedRows()));
  });
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(4, 4, 4, 4);
  column->addWidget(label_);
  column->addWidget(table_, 1);
}

void FiguresPanel::show(const QString& text, std::vector<CellsModel::Row> rows) {
  label_->setText(text);
  model_->show(std::move(rows));
  table_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  table_->resizeColumnsToContents();
}

QString FiguresPanel::text() const { return label_->text(); }

}  // namespace shardscope::gui
