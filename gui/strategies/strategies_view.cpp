#include "gui/strategies/strategies_view.h"

#include <QScrollArea>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "gui/strategies/pareto_chart.h"
#include "gui/strategies/small_multiples.h"
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
      chart_(new ParetoChart(this)),
      multiples_(new SmallMultiples(this)) {
  auto* scroll = new QScrollArea(this);
  scroll->setWidgetResizable(true);
  scroll->setWidget(multiples_);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setFocusProxy(multiples_);
  auto* charts = new QSplitter(Qt::Horizontal, this);
  charts->addWidget(chart_);
  charts->addWidget(scroll);
  charts->setStretchFactor(0, 2);
  charts->setStretchFactor(1, 3);
  parts_ = new QSplitter(Qt::Vertical, this);
  parts_->addWidget(pane_);
  parts_->addWidget(charts);
  parts_->setStretchFactor(0, 0);
  parts_->setStretchFactor(1, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(verdict_);
  layout->addWidget(parts_, 1);
  connect(pane_, &TablePane::chosen, this, [this](int place, Qt::KeyboardModifiers modifiers) {
    choose(rows_[model_->row_at(place)].scenario, modifiers);
  });
  connect(parts_, &QSplitter::splitterMoved, this, [this] { is_moved_ = true; });
  const auto choose_row = [this](std::size_t row, Qt::KeyboardModifiers modifiers) {
    if (row < rows_.size()) choose(rows_[row].scenario, modifiers);
  };
  connect(chart_, &ParetoChart::chosen, this, choose_row);
  connect(multiples_, &SmallMultiples::chosen, this, choose_row);
  connect(model_, &ColumnTableModel::arranged, this, &StrategiesView::arrange_multiples);
  connect(&workspace, &Workspace::axis_changed, this, &StrategiesView::read_curves);
  connect(&workspace, &Workspace::scenarios_changed, this, &StrategiesView::read_rows);
  connect(&workspace, &Workspace::ghost_changed, this, &StrategiesView::read_rows);
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
                 .text = tr("Each strategy on its own scale"),
                 .run = [this] { multiples_->set_own_scales(!multiples_->has_own_scales()); },
                 .is_checked = [this] { return multiples_->has_own_scales(); }});
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
  const auto place = default_baseline(opened_rows());
  return place ? &rows_[*place] : nullptr;
}

std::vector<StrategyRow> StrategiesView::opened_rows() const {
  std::vector<StrategyRow> opened = rows_;
  std::erase_if(opened, [](const StrategyRow& row) { return row.is_tried; });
  return opened;
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
  // It is no scenario before it is pinned there.
  const StrategyRow* row = row_of(scenario);
  if (row != nullptr && row->is_tried)
    return workspace().show_selection_in(QStringLiteral("what_if"));
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
      [scenarios = workspace().scenarios(), ghost = workspace().ghost(),
       known = std::move(known)](std::stop_token stop) {
        std::vector<StrategyRow> rows;
        for (const ScenarioPointer& scenario : scenarios) {
          if (stop.stop_requested()) break;
          const auto same = known.find(scenario);
          rows.push_back(same == known.end() ? strategy_row(scenario) : same->second);
          rows.back().is_tried = false;
        }
        const bool is_pinned =
            std::find(scenarios.begin(), scenarios.end(), ghost) != scenarios.end();
        if (ghost && !is_pinned && !stop.stop_requested()) {
          rows.push_back(strategy_row(ghost));
          rows.back().is_tried = true;
        }
        return rows;
      },
      [this](std::vector<StrategyRow> rows) { take(std::move(rows)); });
}

void StrategiesView::take(std::vector<StrategyRow> rows) {
  rows_ = std::move(rows);
  model_->show(std::make_shared<const ColumnTable>(strategy_table(rows_)));
  // The table is as high as its rows until somebody moves the handle below it.
  const int height = pane_->sizeHint().height();
  if (!is_moved_) parts_->setSizes({height, std::max(1, parts_->height() - height)});
  show_pair();
  read_curves();
}

void StrategiesView::read_curves() {
  drawing_.request_stop();
  Curves curves = curves_;
  if (curves.mode != workspace().time_mode() || curves.a != workspace().a())
    curves = {.mode = workspace().time_mode(), .a = workspace().a(), .of = {}};
  std::vector<std::pair<ScenarioPointer, bool>> scenarios;
  for (const StrategyRow& row : rows_) scenarios.emplace_back(row.scenario, row.is_tried);
  using Drawn = std::pair<std::vector<Multiple>, Curves>;
  drawing_ = workspace().tasks().run(
      this,
      [scenarios, before = std::move(curves)](std::stop_token stop) {
        Drawn drawn{{}, {.mode = before.mode, .a = before.a, .of = {}}};
        for (const auto& [scenario, is_tried] : scenarios) {
          if (stop.stop_requested()) break;
          CurvesPointer& curve = drawn.second.of[scenario];
          const auto known = before.of.find(scenario);
          curve = known != before.of.end()
                      ? known->second
                      : std::make_shared<const std::vector<SideCurve>>(
                            strategy_curves(*scenario, before.mode, before.a.get()));
          drawn.first.push_back({.label = QString::fromStdString(scenario->label),
                                 .marks = {},
                                 .sides = curve,
                                 .is_tried = is_tried,
                                 .is_being_read = scenario->is_being_read});
        }
        return drawn;
      },
      [this](Drawn drawn) {
        curves_ = std::move(drawn.second);
        multiples_->show(std::move(drawn.first));
        multiples_->mark(marks());
        arrange_multiples();
      });
}

void StrategiesView::arrange_multiples() {
  std::vector<std::size_t> rows;
  for (int place = 0; place < model_->rowCount(); ++place) rows.push_back(model_->row_at(place));
  multiples_->arrange(rows);
}

std::vector<QString> StrategiesView::marks() const {
  std::vector<QString> all;
  const StrategyRow* star = baseline();
  for (const StrategyRow& row : rows_) {
    QStringList words;
    if (&row == star) words += QStringLiteral("\u2605");
    if (row.scenario == workspace().a()) words += QStringLiteral("A");
    if (row.scenario == workspace().b()) words += QStringLiteral("B");
    if (row.is_tried) words += QStringLiteral("?");
    all.push_back(words.join(QLatin1Char(' ')));
  }
  return all;
}

void StrategiesView::show_pair() {
  const StrategyRow* star = baseline();
  const StrategyRow* a = row_of(workspace().a());
  const StrategyRow* b = row_of(workspace().b());
  const std::vector<QString> words = marks();
  model_->mark(words);
  chart_->show(rows_, words);
  multiples_->mark(words);
  model_->pin(star == nullptr ? std::nullopt
                              : std::optional(static_cast<std::uint32_t>(star - rows_.data())));
  if (a == nullptr) return verdict_->show({}, tr("Open run folders or traces to compare them."));
  const StrategyRow* from = b != nullptr ? a : star;
  const StrategyRow* to = b != nullptr ? b : a;
  std::vector<Verdict> verdicts;
  if (from != nullptr && from != to) verdicts.push_back(compared(*from, *to));
  verdicts.push_back(predicted_against_profiled(*to));
  const bool is_alone = opened_rows().size() > 1 && verdicts.size() == 1;
  QString hint;
  if (is_alone && star == nullptr) {  // memory snapshots have no times
    hint = tr("Ctrl+click a row to compare it with A.");
  } else if (is_alone) {
    hint = tr("Click a row to compare it with %1 (\u2605); Ctrl+click compares any two.")
               .arg(QString::fromStdString(star->label));
  }
  verdict_->show(verdicts, hint);
}

}  // namespace shardscope::gui
