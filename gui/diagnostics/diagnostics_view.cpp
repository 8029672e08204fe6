#include "gui/diagnostics/diagnostics_view.h"

#include <QHeaderView>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/diagnostics/findings_model.h"

namespace shardscope::gui {

DiagnosticsView::DiagnosticsView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("diagnostics"), tr("Diagnostics"), workspace, parent),
      model_(new FindingsModel(this)),
      rows_(new QTableView(this)) {
  rows_->setModel(model_);
  rows_->setAccessibleName(tr("Findings"));
  rows_->setSelectionBehavior(QAbstractItemView::SelectRows);
  rows_->verticalHeader()->hide();
  rows_->horizontalHeader()->setStretchLastSection(true);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(rows_);
  const auto show = [this] { model_->show(this->workspace().scenarios()); };
  connect(&workspace, &Workspace::scenarios_changed, this, show);
  show();
}

QAbstractItemModel* DiagnosticsView::table() { return model_; }

}  // namespace shardscope::gui
