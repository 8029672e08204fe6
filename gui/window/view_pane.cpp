#include "gui/window/view_pane.h"

#include <QHeaderView>
#include <QTableView>
#include <QTreeView>

#include "gui/table/names_column.h"

namespace shardscope::gui {
namespace {

bool is_tree(const QAbstractItemModel& model) {
  return model.rowCount() > 0 && model.hasChildren(model.index(0, 0));
}

QAbstractItemView* make_tree(QWidget* parent) {
  auto* tree = new QTreeView(parent);
  tree->setUniformRowHeights(true);
  return tree;
}

QAbstractItemView* make_table(QWidget* parent) {
  auto* table = new QTableView(parent);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(table->fontMetrics().height() + 6);
  table->horizontalHeader()->setDefaultSectionSize(140);
  widen_names(*table, 140);
  table->setWordWrap(false);
  table->setTabKeyNavigation(false);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  return table;
}

}  // namespace

ViewPane::ViewPane(View* view, QWidget* parent) : QSplitter(Qt::Vertical, parent), view_(view) {
  setChildrenCollapsible(false);
  addWidget(view);
}

bool ViewPane::shows_table() const { return table_ != nullptr && !table_->isHidden(); }

void ViewPane::show_table(bool shown) {
  if (shown && table_ == nullptr) {
    table_ = is_tree(*view_->table()) ? make_tree(this) : make_table(this);
    table_->setAlternatingRowColors(true);
    table_->setAccessibleName(tr("%1 as a table").arg(view_->title()));
    table_->setModel(view_->table());
    addWidget(table_);
    setSizes({2 * height() / 3, height() / 3});
  }
  if (table_ != nullptr) table_->setVisible(shown);
  if (shown) table_->setFocus();
}

}  // namespace shardscope::gui
