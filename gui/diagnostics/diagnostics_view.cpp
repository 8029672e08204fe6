#include "gui/diagnostics/diagnostics_view.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QVBoxLayout>
#include <memory>
#include <utility>

#include "gui/diagnostics/diagnosis.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"

namespace shardscope::gui {
namespace {

constexpr int margin = 6;

}  // namespace

DiagnosticsView::DiagnosticsView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("diagnostics"), tr("Diagnostics"), workspace, parent),
      model_(new ColumnTableModel(workspace.tasks(), this)),
      summary_(new QLabel(this)),
      filter_(new QLineEdit(this)),
      pane_(new TablePane(*model_, tr("Findings"), this)) {
  summary_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  summary_->setAccessibleName(tr("Which consistency checks passed"));
  QFont font = summary_->font();
  font.setBold(true);
  summary_->setFont(font);
  filter_->setPlaceholderText(tr("Filter: words, severity:warning, scenario:full_shard, -note"));
  filter_->setAccessibleName(tr("Filter findings"));
  filter_->setClearButtonEnabled(true);
  pane_->horizontalHeader()->setStretchLastSection(true);
  // What was found is a sentence, which wraps.
  pane_->verticalHeader()->setDefaultSectionSize(2 * pane_->fontMetrics().height() + margin);
  auto* top = new QHBoxLayout;
  top->setContentsMargins(margin, margin, margin, 0);
  top->addWidget(summary_, 1);
  top->addWidget(filter_, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(top);
  layout->addWidget(pane_, 1);
  connect(filter_, &QLineEdit::textChanged, this, &DiagnosticsView::filter);
  connect(&workspace, &Workspace::scenarios_changed, this, &DiagnosticsView::diagnose);
  setFocusProxy(pane_);
  take({});
  diagnose();
}

QAbstractItemModel* DiagnosticsView::table() { return model_; }

std::vector<Command> DiagnosticsView::commands() {
  std::vector<Command> all = pane_->commands(title());
  all.push_back({.group = title(),
                 .text = tr("Copy all findings as text"),
                 .run = [this] { copy_all(); },
                 .is_enabled = [this] { return model_->table().rows > 0; }});
  all.push_back({.group = title(),
                 .text = tr("Filter findings"),
                 .keys = {QKeySequence(Qt::CTRL | Qt::Key_F)},
                 .run = [this] { filter_->setFocus(); }});
  return all;
}

void DiagnosticsView::diagnose() {
  diagnosing_.request_stop();
  diagnosing_ = workspace().tasks().run(
      this,
      [scenarios = workspace().scenarios(), known = known_](std::stop_token stop) {
        Known next;
        for (const ScenarioPointer& scenario : scenarios) {
          if (stop.stop_requested()) break;
          const auto same = known.find(scenario);
          next[scenario] = same != known.end()
                               ? same->second
                               : Diagnosis{scenario->label, diagnosis_of(*scenario)};
        }
        return next;
      },
      [this](Known known) { take(std::move(known)); });
}

void DiagnosticsView::take(Known known) {
  known_ = std::move(known);
  std::vector<Diagnosis> in_order;
  for (const ScenarioPointer& scenario : workspace().scenarios())
    if (const auto found = known_.find(scenario); found != known_.end())
      in_order.push_back(found->second);
  summary_->setText(QString::fromStdString(summary_text(in_order)));
  model_->show(std::make_shared<const ColumnTable>(findings_table(in_order)));
}

void DiagnosticsView::filter(const QString& text) { model_->filter(text); }

void DiagnosticsView::copy_all() {
  std::string text = summary_->text().toStdString() + "\n";
  for (const ScenarioPointer& scenario : workspace().scenarios())
    if (const auto found = known_.find(scenario); found != known_.end())
      text += plain_text(found->second.label, found->second.findings);
  QApplication::clipboard()->setText(QString::fromStdString(text));
}

}  // namespace shardscope::gui
