#include "gui/strategies/strategies_view.h"

#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>
#include <map>
#include <utility>

#include "gui/strategies/verdict_panel.h"
#include "gui/table/cell_delegate.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"

namespace shardscope::gui {

StrategiesView::StrategiesView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("strategies"), tr("Strategies"), workspace, parent),
      model_(new ColumnTableModel(workspace.tasks(), this)),
      verdict_(new VerdictPanel(this)),
      pane_(new TablePane(*model_, tr("Scenarios"), this)),
      parts_(new QSplitter(Qt::Vertical, this)) {
  parts_->addWidget(pane_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(verdict_);
  layout->addWidget(parts_, 1);
  connect(pane_, &TablePane::chosen, this, [this](int place, Qt::KeyboardModifiers modifiers) {
    choose(rows_[model_->row_at(place)].scenario, modifiers);
  });
  connect(&workspace, &Workspace::scenarios_changed, this, &StrategiesView::read_rows);
  connect(&workspace, &Workspace::pair_changed, this, &StrategiesView::show_pair);
  setFocusProxy(pane_);
  read_rows();
  show_pair();
}

QAbstractItemModel* StrategiesView::table() { return model_; }

std::vector<Command> StrategiesView::commands() {
  std::vector<Command> all = pane_->commands(title());
  all.push_back({.group = title(),
                 .text = tr("Make the row the baseline"),
                 .keys = {Qt::Key_B},
                 .run = [this] { set_baseline(current_scenario()); },
                 .is_enabled = [this] { return current_scenario() != nullptr; }});
  all.push_back({.group = title(),
                 .text = tr("Show differences to the baseline"),
                 .run =
                     [this] {
                       pane_->cells().show_changes(!pane_->cells().shows_changes());
                       pane_->viewport()->update();
                     },
                 .is_checked = [this] { return pane_->cells().shows_changes(); }});
  all.push_back({.group = title(),
                 .text = tr("No comparison"),
                 .run = [this] { workspace().set_b(nullptr); },
                 .is_enabled = [this] { return workspace().b() != nullptr; }});
  return all;
}

const StrategyRow* StrategiesView::row_of(const ScenarioPointer& scenario) const {
  const auto same = std::find_if(rows_.begin(), rows_.end(),
                                 [&](const StrategyRow& row) { return row.scenario == scenario; });
  return scenario == nullptr || same == rows_.end() ? nullptr : &*same;
}

const StrategyRow* StrategiesView::baseline() const {
  if (const StrategyRow* chosen = row_of(chosen_baseline_)) return chosen;
  const auto place = default_baseline(rows_);
  return place ? &rows_[*place] : nullptr;
}

void StrategiesView::set_baseline(const ScenarioPointer& scenario) {
  chosen_baseline_ = scenario;
  show_pair();
}

ScenarioPointer StrategiesView::current_scenario() const {
  const QModelIndex current = pane_->currentIndex();
  return current.isValid() ? rows_[model_->row_at(current.row())].scenario : nullptr;
}

void StrategiesView::choose(const ScenarioPointer& scenario, Qt::KeyboardModifiers modifiers) {
  if (modifiers & (Qt::ControlModifier | Qt::ShiftModifier))
    workspace().set_b(scenario);
  else
    workspace().set_a(scenario);
}

void StrategiesView::read_rows() {
  reading_.request_stop();
  std::map<ScenarioPointer, StrategyRow> known;
  for (const StrategyRow& row : rows_) known[row.scenario] = row;
  reading_ = workspace().tasks().run(
      this,
      [scenarios = workspace().scenarios(), known = std::move(known)](std::stop_token stop) {
        std::vector<StrategyRow> rows;
        for (const ScenarioPointer& scenario : scenarios) {
          if (stop.stop_requested()) break;
          const auto same = known.find(scenario);
          rows.push_back(same == known.end() ? strategy_row(scenario) : same->second);
        }
        return rows;
      },
      [this](std::vector<StrategyRow> rows) { take(std::move(rows)); });
}

void StrategiesView::take(std::vector<StrategyRow> rows) {
  rows_ = std::move(rows);
  model_->show(std::make_shared<const ColumnTable>(strategy_table(rows_)));
  show_pair();
}

void StrategiesView::show_pair() {
  const StrategyRow* star = baseline();
  const StrategyRow* a = row_of(workspace().a());
  const StrategyRow* b = row_of(workspace().b());
  std::map<std::uint32_t, QString> marks;
  for (std::uint32_t i = 0; i < rows_.size(); ++i) {
    const StrategyRow* row = &rows_[i];
    QStringList words;
    if (row == star) words += QStringLiteral("\u2605");
    if (row == a) words += QStringLiteral("A");
    if (row == b) words += QStringLiteral("B");
    if (!words.isEmpty()) marks[i] = words.join(QLatin1Char(' '));
  }
  model_->mark(marks);
  model_->pin(star == nullptr ? std::nullopt
                              : std::optional(static_cast<std::uint32_t>(star - rows_.data())));
  if (a == nullptr) return verdict_->show({}, tr("Open run folders or traces to compare them."));
  const StrategyRow* from = b != nullptr ? a : star;
  const StrategyRow* to = b != nullptr ? b : a;
  std::vector<Verdict> verdicts;
  if (from != nullptr && from != to) verdicts.push_back(compared(*from, *to));
  verdicts.push_back(predicted_against_profiled(*to));
  const bool is_alone = rows_.size() > 1 && verdicts.size() == 1;
  verdict_->show(verdicts, is_alone ? tr("Click a row to compare it with %1 (\u2605); Ctrl+click "
                                         "compares any two.")
                                          .arg(QString::fromStdString(star->label))
                                    : QString());
}

}  // namespace shardscope::gui
