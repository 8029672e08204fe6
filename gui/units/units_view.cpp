#include "gui/units/units_view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QStackedWidget>
#include <QTabBar>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "gui/base/pair_picker.h"
#include "gui/data/row_sums.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"

namespace shardscope::gui {
namespace {

constexpr int typing_pause_ms = 150;  ///< after which what was typed is looked for

/// What a selection stands for, as rows do.
RowTarget target_of(const Selection& selection) {
  RowTarget target{
      .operation = selection.operation, .unit = selection.unit, .event = selection.event};
  if (!selection.span) return target;
  const auto span = static_cast<std::uint32_t>(*selection.span);
  (selection.side == SideKind::predicted ? target.predicted_span : target.profiled_span) = span;
  return target;
}

}  // namespace

UnitsView::UnitsView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("units"), tr("Units and operations"), workspace, parent),
      tabs_(new QTabBar(this)),
      stack_(new QStackedWidget(this)),
      picker_(new PairPicker(QStringLiteral("units"), workspace, this)),
      filter_(new QLineEdit(this)),
      typed_(new QTimer(this)),
      summary_(new QLabel(this)) {
  make_table(units_tab, tr("Units"));
  make_table(operations_tab, tr("Operations"));
  make_table(memory_tab, tr("Memory"));
  summary_->setAccessibleName(tr("Sum of the selected rows"));
  summary_->setMargin(4);
  // As wide as there is room; a long text does not widen the window.
  summary_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(make_bar());
  layout->addWidget(stack_, 1);
  layout->addWidget(summary_);
  connect(picker_, &PairPicker::changed, this, &UnitsView::read_tables);
  connect(&workspace, &Workspace::ghost_changed, this, [this] {
    // While a control of What-if is dragged nobody waits for tables that are out of sight.
    is_stale_ = !isVisible();
    if (!is_stale_) read_tables();
  });
  connect(&workspace, &Workspace::selection_changed, this, &UnitsView::reveal_selection);
  setFocusProxy(stack_);
  read_tables();
}

void UnitsView::make_table(Tab tab, const QString& name) {
  Table& table = tables_[tab];
  table.model = new ColumnTableModel(workspace().tasks(), this);
  table.pane = new TablePane(*table.model, name, this);
  stack_->addWidget(table.pane);
  tabs_->addTab(name);
  connect(table.pane->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this, &table](const QModelIndex& now) {
            if (!is_revealing_ && now.isValid()) select_row(table, now.row());
          });
  connect(table.pane->selectionModel(), &QItemSelectionModel::selectionChanged, this,
          &UnitsView::show_summary);
  connect(table.pane, &TablePane::entered, this,
          [this, &table](int place) { lead_to_timeline(table, place); });
  connect(table.model, &ColumnTableModel::arranged, this, [this, &table] {
    sum_all(table);
    if (&table == &current()) show_summary();
    reveal_in(table);
  });
}

QWidget* UnitsView::make_bar() {
  auto* bar = new QWidget(this);
  tabs_->setAccessibleName(tr("Units, operations or memory"));
  tabs_->setDrawBase(false);
  tabs_->setObjectName(QStringLiteral("units_tabs"));
  filter_->setAccessibleName(tr("Filter"));
  filter_->setClearButtonEnabled(true);
  filter_->setPlaceholderText(
      tr("Filter: words, unit:layers.0 kind:all_gather -phase:forward difference>1ms"));
  typed_->setSingleShot(true);
  typed_->setInterval(typing_pause_ms);
  connect(filter_, &QLineEdit::textChanged, typed_, qOverload<>(&QTimer::start));
  connect(typed_, &QTimer::timeout, this, [this] {
    for (const Table& table : tables_) table.model->filter(filter_->text());
  });
  connect(tabs_, &QTabBar::currentChanged, this, [this](int tab) {
    stack_->setCurrentIndex(tab);
    reveal_selection();
    show_summary();
  });
  auto* layout = new QHBoxLayout(bar);
  layout->setContentsMargins(4, 3, 6, 3);
  layout->addWidget(tabs_);
  layout->addWidget(picker_);
  layout->addWidget(filter_, 1);
  return bar;
}

void UnitsView::showEvent(QShowEvent* event) {
  View::showEvent(event);
  if (std::exchange(is_stale_, false)) read_tables();
}

QAbstractItemModel* UnitsView::table() { return current().model; }

UnitsView::Tab UnitsView::tab() const {
  return static_cast<Tab>(std::clamp(tabs_->currentIndex(), 0, tab_count - 1));
}

void UnitsView::show_tab(Tab tab) { tabs_->setCurrentIndex(tab); }

QString UnitsView::summary() const { return summary_->text(); }

std::vector<Command> UnitsView::commands() {
  std::vector<Command> all = current().pane->commands(title());
  all.push_back({.group = title(),
                 .text = tr("Filter rows"),
                 .keys = {Qt::Key_Slash, QKeySequence::Find},
                 .run = [this] { filter_->setFocus(); }});
  all.push_back(
      {.group = title(), .text = tr("Show units"), .run = [this] { show_tab(units_tab); }});
  all.push_back({.group = title(), .text = tr("Show operations"), .run = [this] {
                   show_tab(operations_tab);
                 }});
  all.push_back({.group = title(), .text = tr("Show memory by unit"), .run = [this] {
                   show_tab(memory_tab);
                 }});
  all.push_back({.group = title(),
                 .text = tr("A against B"),
                 .run = [this] { show_pair(); },
                 .is_enabled = [this] { return workspace().b() != nullptr; },
                 .is_checked = [this] { return picker_->is_pair(); }});
  return all;
}

void UnitsView::show_pair() { picker_->choose_pair(); }

void UnitsView::read_tables() {
  reading_.request_stop();
  const ScenarioPointer scenario = picker_->shown();
  if (!scenario) {
    Tables none;
    for (auto& rows : none.by_tab)
      rows = std::make_shared<const RowTable>(RowTable{
          .table = {}, .targets = {}, .spans = {}, .problem = tr("Nothing is open").toStdString()});
    return take(none);
  }
  reading_ = workspace().tasks().run(
      this,
      [scenario, ghost = workspace().ghost(), rank = picker_->rank(),
       other = picker_->other()](std::stop_token stop) {
        Tables tables{.scenario = scenario, .other = other, .rank = rank, .by_tab = {}};
        const auto put = [&](Tab tab, RowTable rows) {
          tables.by_tab[tab] = std::make_shared<const RowTable>(std::move(rows));
        };
        if (other) {
          put(units_tab, unit_pair_table(*scenario, *other, rank));
          put(operations_tab, operation_pair_table(*scenario, *other, rank));
          put(memory_tab, memory_pair_table(*scenario, *other, rank));
        } else {
          put(units_tab, unit_table(*scenario, rank, ghost.get()));
          put(operations_tab, operation_table(*scenario, rank, stop, ghost.get()));
          put(memory_tab, memory_table(*scenario, rank));
        }
        return tables;
      },
      [this](const Tables& tables) { take(tables); });
}

void UnitsView::take(const Tables& tables) {
  rows_scenario_ = tables.scenario;
  rows_other_ = tables.other;
  rows_rank_ = tables.rank;
  for (int tab = 0; tab < tab_count; ++tab) {
    Table& table = tables_[tab];
    table.rows = tables.by_tab[tab];
    table.sum_of_all.clear();
    sort_at_first(table);
    // The table lives in the rows.
    table.model->show(ColumnTablePointer(table.rows, &table.rows->table));
  }
  reveal_selection();
  show_summary();
}

/// Where the largest differences are is what people come for.
void UnitsView::sort_at_first(Table& table) {
  if (table.is_sorted || table.rows->table.rows == 0) return;
  for (const char* id : {"difference", "compute_difference", "duration"}) {
    const std::size_t column = table.rows->table.place_of(id);
    if (column == table.rows->table.columns.size()) continue;
    table.is_sorted = true;
    const QSignalBlocker quiet(table.pane->horizontalHeader());
    table.pane->horizontalHeader()->setSortIndicator(static_cast<int>(column), Qt::DescendingOrder);
    return table.model->sort_by(id, SortOrder::by_magnitude);
  }
}

void UnitsView::select_row(const Table& table, int place) {
  const RowTarget target = gui::target_of(*table.rows, table.model->row_at(place));
  const ScenarioPointer& of = target.is_of_b ? rows_other_ : rows_scenario_;
  Selection selection{.scenario = of, .rank = rows_rank_};
  selection.operation = target.operation;
  selection.unit = target.unit;
  selection.event = target.event;
  const bool is_profiled = target.profiled.has_value() || !target.predicted.has_value();
  selection.side = is_profiled ? SideKind::profiled : SideKind::predicted;
  const auto& span = is_profiled ? target.profiled_span : target.predicted_span;
  if (span) selection.span = *span;
  if (const auto& window = is_profiled ? target.profiled : target.predicted) {
    const TimeMap map = workspace().time_map(*of, selection.side, selection.rank);
    selection.time = TimeRange{.begin = map.axis_of(static_cast<double>(window->begin.ns)),
                               .end = map.axis_of(static_cast<double>(window->end.ns))};
  }
  is_revealing_ = true;
  workspace().select(selection);
  is_revealing_ = false;
}

void UnitsView::lead_to_timeline(const Table& table, int place) {
  select_row(table, place);
  constexpr double lengths_beside = 2;  ///< so that its neighbours are seen
  if (const auto& time = workspace().selection().time)
    workspace().show(with_margin(*time, lengths_beside));
  workspace().show_selection_in(QStringLiteral("timeline"));
}

void UnitsView::reveal_selection() {
  for (Table& table : tables_) reveal_in(table);
}

void UnitsView::reveal_in(Table& table) {
  const Selection& selection = workspace().selection();
  const bool is_of_b = rows_other_ && selection.scenario == rows_other_;
  if ((selection.scenario != rows_scenario_ && !is_of_b) || selection.empty()) return;
  RowTarget target = target_of(selection);
  target.is_of_b = is_of_b;
  const auto row = row_of(*table.rows, target);
  if (!row) return;
  is_revealing_ = true;
  table.pane->reveal(*row);
  is_revealing_ = false;
}

void UnitsView::sum_all(Table& table) {
  std::vector<std::uint32_t> rows;
  for (int place = 0; place < table.model->rowCount(); ++place)
    rows.push_back(table.model->row_at(place));
  table.sum_of_all = sum_text(tr("%L1 of %L2 rows: "), table, rows);
}

QString UnitsView::sum_text(const QString& head, const Table& table,
                            const std::vector<std::uint32_t>& rows) {
  return head.arg(rows.size()).arg(table.rows->table.rows) +
         QString::fromStdString(sums_text(table.model->table(), rows));
}

void UnitsView::show_summary() {
  const Table& table = current();
  if (!table.rows->problem.empty()) {
    summary_->setText(QString::fromStdString(table.rows->problem));
    return;
  }
  const std::vector<int> places = table.pane->selected_places();
  // One row is where people look, and is told by the table itself.
  if (places.size() < 2) return summary_->setText(table.sum_of_all);
  std::vector<std::uint32_t> rows;
  for (const int place : places) rows.push_back(table.model->row_at(place));
  summary_->setText(sum_text(tr("%L1 of %L2 rows selected: "), table, rows));
}

}  // namespace shardscope::gui
