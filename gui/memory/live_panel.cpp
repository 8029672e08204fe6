#include "gui/memory/live_panel.h"

#include <QAction>
#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QTreeView>
#include <QVBoxLayout>

#include "gui/memory/bytes_text.h"
#include "gui/memory/cells_model.h"
#include "gui/memory/live_tree_model.h"

namespace shardscope::gui {

LivePanel::LivePanel(Workspace& workspace, QWidget* parent)
    : QWidget(parent),
      workspace_(workspace),
      label_(new QLabel(this)),
      search_(new QLineEdit(this)),
      model_(new LiveTreeModel(this)),
      tree_(new QTreeView(this)) {
  label_->setWordWrap(true);
  label_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  search_->setPlaceholderText(tr("Search tensors, units, categories, operations"));
  search_->setAccessibleName(tr("Search what is alive"));
  search_->setClearButtonEnabled(true);
  tree_->setModel(model_);
  tree_->setAccessibleName(tr("What is alive, by category, unit and tensor"));
  tree_->setUniformRowHeights(true);
  tree_->setAlternatingRowColors(true);
  tree_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  auto* copying = new QAction(tr("Copy rows"), tree_);
  copying->setShortcut(QKeySequence::Copy);
  copying->setShortcutContext(Qt::WidgetShortcut);
  tree_->addAction(copying);
  tree_->setContextMenuPolicy(Qt::ActionsContextMenu);
  connect(copying, &QAction::triggered, this, &LivePanel::copy);
  connect(search_, &QLineEdit::textChanged, this, &LivePanel::fill);
  connect(tree_, &QTreeView::activated, this, [this](const QModelIndex& index) {
    if (const LiveBuffer* buffer = model_->buffer(index)) Q_EMIT buffer_chosen(*buffer);
  });
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(4, 4, 4, 4);
  column->addWidget(label_);
  column->addWidget(search_);
  column->addWidget(tree_, 1);
  clear(tr("Click into the picture, or press Enter there, for what is alive at that instant."));
}

void LivePanel::show(std::shared_ptr<const LiveSet> set, const QString& heading) {
  set_ = std::move(set);
  heading_ = heading;
  fill();
}

void LivePanel::clear(const QString& reason) {
  filling_.request_stop();
  set_.reset();
  model_->show(std::make_shared<const LiveSet>(), {});
  label_->setText(reason);
}

void LivePanel::fill() {
  filling_.request_stop();
  if (!set_) return;
  const std::string wanted = search_->text().trimmed().toStdString();
  filling_ = workspace_.tasks().run(
      this, [set = set_, wanted](std::stop_token) { return live_tree(*set, wanted); },
      [this, set = set_, wanted](LiveTree tree) {
        const Bytes found = tree.nodes.empty() ? Bytes{} : tree.nodes.front().bytes;
        model_->show(set, std::move(tree));
        label_->setText(
            tr("%1: %2 (%3)%4")
                .arg(heading_, rounded_bytes(set->total()), exact_bytes(set->total()),
                     wanted.empty() ? QString() : tr("; found %1").arg(exact_bytes(found))));
        Q_EMIT told(label_->text());
        for (int row = 0; row < model_->rowCount(); ++row)
          tree_->setExpanded(model_->index(row, 0), !wanted.empty());
        for (const int column : {0, 1, 2, 3}) tree_->resizeColumnToContents(column);
      });
}

void LivePanel::copy() const {
  QModelIndexList rows = tree_->selectionModel()->selectedRows();
  QGuiApplication::clipboard()->setText(rows_as_tsv(*model_, rows));
}

}  // namespace shardscope::gui
