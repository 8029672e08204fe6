#include "gui/query/query_view.h"

#include <QComboBox>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QKeyEvent>
#include <QLabel>
#include <QLocale>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSplitter>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <array>
#include <utility>

#include "gui/base/choice_box.h"
#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"

namespace shardscope::gui {
namespace {

constexpr double longest_rerun_s = 2;  ///< of a query that is asked again when the axis changes

struct QueryExample {
  const char* title;
  const char* sql;
};

constexpr std::array query_examples{
    QueryExample{QT_TRANSLATE_NOOP("QueryView", "Longest collectives"),
                 "select scenario, side, rank, id, name, unit, start_ns, duration_ns, bytes\n"
                 "from spans where class = 'communication'\n"
                 "order by duration_ns desc limit 100"},
    QueryExample{QT_TRANSLATE_NOOP("QueryView", "Time by operation and side"),
                 "select scenario, side, name, count(*) as runs, sum(duration_ns) as sum_ns,\n"
                 "  avg(duration_ns) as mean_ns\n"
                 "from spans where class != 'host' group by scenario, side, name\n"
                 "order by sum_ns desc"},
    QueryExample{QT_TRANSLATE_NOOP("QueryView", "Gaps longer than 100 us on the compute stream"),
                 "with ordered as (\n"
                 "  select scenario, side, rank, end_ns as start_ns,\n"
                 "    lead(start_ns) over (partition by scenario, side, rank order by start_ns)"
                 " as end_ns\n"
                 "  from spans where stream = 'compute')\n"
                 "select *, end_ns - start_ns as duration_ns from ordered\n"
                 "where end_ns - start_ns > 100e3 order by duration_ns desc"},
    QueryExample{QT_TRANSLATE_NOOP("QueryView", "Units by exposed communication"),
                 "select scenario, side, rank, unit, compute_ns, communication_ns,\n"
                 "  exposed_communication_ns\n"
                 "from units order by exposed_communication_ns desc"},
    QueryExample{QT_TRANSLATE_NOOP("QueryView", "Largest buffers by category"),
                 "select category, unit, name, bytes from buffers order by bytes desc limit 200"},
    QueryExample{QT_TRANSLATE_NOOP("QueryView", "Snapshot: who holds memory at the end"),
                 "select frame, count(*) as blocks, sum(bytes) as sum_bytes from allocations\n"
                 "where alive_at_end group by frame order by sum_bytes desc"},
};

}  // namespace

QueryView::QueryView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("query"), tr("Query"), workspace, parent) {
  model_ = new ColumnTableModel(workspace.tasks(), this);
  pane_ = new TablePane(*model_, tr("Rows that were found"), this);
  status_ = new QLabel(this);
  status_->setContentsMargins(6, 3, 6, 3);
  status_->setWordWrap(true);
  status_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* below = new QWidget(this);
  auto* lines = new QVBoxLayout(below);
  lines->setContentsMargins(0, 0, 0, 0);
  lines->setSpacing(0);
  lines->addWidget(status_);
  lines->addWidget(pane_, 1);
  auto* left = new QSplitter(Qt::Vertical, this);
  left->addWidget(make_editor());
  left->addWidget(below);
  left->setStretchFactor(0, 1);
  left->setStretchFactor(1, 3);
  left->setSizes({200, 460});
  auto* across = new QSplitter(Qt::Horizontal, this);
  across->addWidget(left);
  across->addWidget(make_schema());
  across->setStretchFactor(0, 4);
  across->setStretchFactor(1, 1);
  across->setSizes({960, 270});
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(across);
  connect(pane_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& now) {
            if (now.isValid()) show_row(now.row());
          });
  // Rows of other scenarios, or on another axis, would point elsewhere.
  connect(&workspace, &Workspace::axis_changed, this, [this] {
    if (!has_asked_ || is_running_) return;
    if (answer_.seconds <= longest_rerun_s) return run();
    clear_marks();
    say(tr("The axis has changed: run the query again to mark its rows."), false);
  });
  setFocusProxy(sql_);
  set_running(false);
  if (can_query())
    say(tr("Ctrl+Enter runs the query over A and B. Nothing is changed by it."), false);
  else
    say(tr("This program is built without SQLite: install libsqlite3-dev and build again."), true);
}

QWidget* QueryView::make_editor() {
  auto* box = new QWidget(this);
  auto* column = new QVBoxLayout(box);
  column->setContentsMargins(6, 4, 6, 0);
  auto* line = new QHBoxLayout;
  examples_ = new ChoiceBox(box);
  examples_->setAccessibleName(tr("Queries to begin with"));
  for (const QueryExample& example : query_examples) examples_->addItem(tr(example.title));
  connect(examples_, &QComboBox::activated, this, [this](int index) {
    set_sql(QString::fromLatin1(query_examples[static_cast<std::size_t>(index)].sql));
    run();
  });
  auto* label = new QLabel(tr("Example"), box);
  label->setBuddy(examples_);
  run_ = new QPushButton(tr("&Run"), box);
  stop_ = new QPushButton(tr("&Stop"), box);
  clear_ = new QPushButton(tr("&Clear marks"), box);
  clear_->setToolTip(tr("Takes the marks of the found rows out of the timeline."));
  connect(run_, &QPushButton::clicked, this, &QueryView::run);
  connect(stop_, &QPushButton::clicked, this, &QueryView::stop);
  connect(clear_, &QPushButton::clicked, this, &QueryView::clear_marks);
  line->addWidget(label);
  line->addWidget(examples_, 1);
  line->addStretch(1);
  for (QPushButton* button : {run_, stop_, clear_}) line->addWidget(button);
  sql_ = new QPlainTextEdit(box);
  sql_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  sql_->setAccessibleName(tr("SQL"));
  sql_->setTabChangesFocus(true);
  sql_->setPlaceholderText(QStringLiteral("select name, sum(duration_ns) from spans group by 1"));
  sql_->setPlainText(QString::fromLatin1(query_examples.front().sql));
  sql_->installEventFilter(this);
  column->addLayout(line);
  column->addWidget(sql_, 1);
  return box;
}

QTreeWidget* QueryView::make_schema() {
  auto* tree = new QTreeWidget(this);
  tree->setHeaderLabels({tr("Tables and columns"), tr("Type")});
  tree->setAccessibleName(tr("Tables and columns"));
  tree->header()->setStretchLastSection(true);
  for (const QueryTableHelp& help : query_table_help()) {
    auto* table = new QTreeWidgetItem(tree, {text_of(help.name)});
    table->setToolTip(0, text_of(help.about));
    for (const QueryTableHelp::Column& column : help.columns)
      new QTreeWidgetItem(table, {text_of(column.name), text_of(column.type)});
    table->setExpanded(help.name == "spans");
  }
  tree->resizeColumnToContents(0);
  connect(tree, &QTreeWidget::itemDoubleClicked, this, [this](QTreeWidgetItem* item) {
    sql_->insertPlainText(item->text(0));
    sql_->setFocus();
  });
  return tree;
}

void QueryView::set_sql(const QString& sql) { sql_->setPlainText(sql); }

void QueryView::run() {
  if (!can_query()) return;
  asking_.request_stop();
  has_asked_ = true;
  set_running(true);
  say(tr("Running..."), false);
  const QueryQuestion question{.a = workspace().a(),
                               .b = workspace().b(),
                               .mode = workspace().time_mode(),
                               .step = workspace().step(),
                               .sql = sql_->toPlainText().toStdString()};
  asking_ = workspace().tasks().run(
      this, [question](std::stop_token stop) { return ask(question, stop); },
      [this](QueryAnswer answer) { take(std::move(answer)); },
      [this](const QString& failure) { take({.error = failure.toStdString()}); });
}

void QueryView::stop() {
  if (!is_running_) return;
  asking_.request_stop();
  set_running(false);
  say(tr("Stopped."), false);
}

void QueryView::clear_marks() {
  has_asked_ = false;
  workspace().set_marks({});
}

void QueryView::take(QueryAnswer answer) {
  answer_ = std::move(answer);
  set_running(false);
  model_->show(answer_.table);
  const std::vector<TimeRange> marks = answer_.marks();
  const auto marked = static_cast<qulonglong>(marks.size());
  workspace().set_marks(marks);
  if (!answer_.error.empty()) return say(text_of(answer_.error), true);
  const QLocale english(QLocale::English);
  QString text = tr("%1 rows in %2 s")
                     .arg(english.toString(static_cast<qulonglong>(answer_.table->rows)))
                     .arg(answer_.seconds, 0, 'f', 2);
  if (answer_.is_cut) text += tr("; there are more: these are the first");
  if (marked > 0) text += tr("; %1 are marked in the timeline").arg(english.toString(marked));
  say(text, false);
}

void QueryView::show_row(int place) {
  const std::uint32_t row = model_->row_at(place);
  if (row >= answer_.places.size()) return;
  const QueryRowPlace& of = answer_.places[row];
  if (!of.scenario || !of.time) return;
  Selection selection{.scenario = of.scenario, .side = of.side, .rank = of.rank};
  selection.span = of.span;
  selection.time = of.time;
  workspace().select(selection);
  const TimeRange seen = workspace().visible();
  if (of.time->end >= seen.begin && of.time->begin <= seen.end) return;
  workspace().show({.begin = of.time->middle() - seen.length() / 2,
                    .end = of.time->middle() + seen.length() / 2});
}

void QueryView::say(const QString& text, bool is_error) {
  status_->setText(text);
  QPalette palette = this->palette();
  if (is_error) palette.setColor(QPalette::WindowText, theme_of(*this).exposed);
  status_->setPalette(palette);
}

void QueryView::set_running(bool is_running) {
  is_running_ = is_running;
  run_->setEnabled(can_query());
  stop_->setEnabled(is_running);
}

QString QueryView::status() const { return status_->text(); }

QAbstractItemModel* QueryView::table() { return model_; }

std::vector<Command> QueryView::commands() {
  const QString group = tr("Query");
  return {
      {.group = group,
       .text = tr("Run the query"),
       .keys = {QKeySequence(Qt::CTRL | Qt::Key_Return), QKeySequence(Qt::CTRL | Qt::Key_Enter)},
       .run = [this] { run(); }},
      {.group = group,
       .text = tr("Stop the query"),
       .run = [this] { stop(); },
       .is_enabled = [this] { return is_running_; }},
      {.group = group,
       .text = tr("Clear the marks of the query"),
       .run = [this] { clear_marks(); },
       .is_enabled = [this] { return !workspace().marks()->empty(); }}};
}

bool QueryView::eventFilter(QObject* watched, QEvent* event) {
  if (watched == sql_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    const bool is_enter = key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter;
    if (is_enter && (key->modifiers() & Qt::ControlModifier)) {
      run();
      return true;
    }
  }
  return View::eventFilter(watched, event);
}

}  // namespace shardscope::gui
