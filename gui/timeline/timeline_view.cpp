#include "gui/timeline/timeline_view.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QPainter>
#include <QScrollBar>
#include <QSplitter>
#include <QStackedWidget>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "gui/base/choice_box.h"
#include "gui/base/spoken.h"
#include "gui/base/step_picker.h"
#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/table/names_column.h"
#include "gui/table/names_delegate.h"
#include "gui/timeline/exposed_reason.h"
#include "gui/timeline/range_rows.h"
#include "gui/timeline/spans_model.h"
#include "gui/timeline/text_rows_model.h"
#include "gui/timeline/timeline_canvas.h"
#include "gui/timeline/timeline_drawing.h"
#include "gui/timeline/timeline_minimap.h"

namespace shardscope::gui {
namespace {

enum PanelTab { range_tab, exposed_tab, selection_tab };

constexpr int range_delay_ms = 60;  ///< while a range is dragged, sums come this much later

QTableView* table_of(TextRowsModel* model, const QString& name, QWidget* parent) {
  auto* table = new QTableView(parent);
  table->setMinimumHeight(1);  // of itself it asks for the height of its scroll bars
  table->setModel(model);
  table->setAccessibleName(name);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setTabKeyNavigation(false);
  table->setAlternatingRowColors(true);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(table->fontMetrics().height() + 6);
  table->horizontalHeader()->setDefaultSectionSize(112);
  widen_names(*table, 200);
  table->setItemDelegateForColumn(
      0, new NamesDelegate([model] { return model->common_modules(); }, table));
  return table;
}

/// The legend below the canvas.
class TimelineLegend : public QWidget {
 public:
  explicit TimelineLegend(QWidget* parent) : QWidget(parent) {
    setFixedHeight(fontMetrics().height() + 6);
    setAccessibleName(TimelineView::tr("What colours and hatches mean"));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    draw_legend(painter, theme_of(*this), rect());
  }
};

}  // namespace

TimelineView::TimelineView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("timeline"), tr("Timeline"), workspace, parent) {
  spans_ = new SpansModel(this);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(make_bar());
  minimap_ = new TimelineMinimap(workspace, this);
  layout->addWidget(minimap_);
  halves_ = new QSplitter(Qt::Vertical, this);
  halves_->setChildrenCollapsible(false);
  halves_->addWidget(make_canvas());
  halves_->addWidget(make_panel());
  connect(halves_, &QSplitter::splitterMoved, this, [this] {
    is_divided_by_hand_ = true;
    show_tables(true);
  });
  halves_->installEventFilter(this);
  layout->addWidget(halves_, 1);
  range_delay_ = new QTimer(this);
  range_delay_->setSingleShot(true);
  range_delay_->setInterval(range_delay_ms);
  setFocusProxy(canvas_);
  connect_all();
  prepare();
}

QWidget* TimelineView::make_bar() {
  auto* bar = new QWidget(this);
  auto* layout = new QHBoxLayout(bar);
  layout->setContentsMargins(6, 3, 6, 3);
  search_box_ = new QLineEdit(bar);
  search_box_->setPlaceholderText(tr("Search spans and units (/)"));
  search_box_->setAccessibleName(tr("Search spans and units"));
  search_box_->setClearButtonEnabled(true);
  search_box_->setMaximumWidth(340);
  search_box_->installEventFilter(this);
  hit_count_ = new QLabel(bar);
  hit_count_->setMinimumWidth(90);
  mode_ = new ChoiceBox(bar);
  mode_->setAccessibleName(tr("What the axis means"));
  mode_->addItem(tr("time: each side's own clock"));
  mode_->addItem(tr("step: from the step's begin"));
  mode_->addItem(tr("unit: units begin together"));
  mode_->setCurrentIndex(static_cast<int>(workspace().time_mode()));
  auto* label = new QLabel(tr("Axis"), bar);
  label->setBuddy(mode_);
  layout->addWidget(search_box_, 1);
  layout->addWidget(hit_count_);
  layout->addStretch(1);
  flows_ = new QCheckBox(tr("Flows"), bar);
  flows_->setToolTip(
      tr("Draws an arrow for each launch and each flow of the trace, and a line between ranks for "
         "each collective (L). A selected span shows its own arrows in any case."));
  layout->addWidget(flows_);
  layout->addWidget(label);
  layout->addWidget(mode_);
  auto* steps = new StepPicker(workspace(), bar);
  auto* step_label = new QLabel(tr("Step"), bar);
  step_label->setBuddy(steps);
  layout->addWidget(step_label);
  layout->addWidget(steps);
  return bar;
}

QWidget* TimelineView::make_canvas() {
  auto* box = new QWidget(this);
  auto* column = new QVBoxLayout(box);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* line = new QHBoxLayout;
  line->setSpacing(0);
  canvas_ = new TimelineCanvas(workspace(), box);
  scroll_bar_ = new QScrollBar(Qt::Vertical, box);
  scroll_bar_->setAccessibleName(tr("Rows of the timeline"));
  line->addWidget(canvas_, 1);
  line->addWidget(scroll_bar_);
  column->addLayout(line, 1);
  column->addWidget(new TimelineLegend(box));
  return box;
}

QWidget* TimelineView::make_panel() {
  auto* box = new QWidget(this);
  why_ = new QLabel(box);
  why_->setObjectName(QStringLiteral("exposed_reason"));
  why_->setTextFormat(Qt::PlainText);
  why_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  why_->setWordWrap(true);
  why_->setMargin(5);
  QFont bold = why_->font();
  bold.setBold(true);
  why_->setFont(bold);
  why_->hide();
  panel_ = new QTabWidget(box);
  panel_->setDocumentMode(true);
  auto* column = new QVBoxLayout(box);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(why_);
  column->addWidget(panel_, 1);
  details_ = new TextRowsModel({tr("What"), tr("Value")}, this);
  identity_ =
      new TextRowsModel({tr("Rank"), tr("Side"), tr("Span"), tr("= Compute"), tr("+ Exposed comm."),
                         tr("+ Exposed copies"), tr("+ Idle"), tr("Overlap")},
                        this);
  operations_ = new TextRowsModel({tr("Operation"), tr("Class"), tr("Predicted"), tr("Profiled"),
                                   tr("Pred. - prof."), tr("Runs predicted"), tr("Runs profiled")},
                                  this);
  exposed_ = new TextRowsModel({tr("Collective"), tr("Unit"), tr("Exposed (ms)"), tr("Begin (ms)"),
                                tr("Bytes"), tr("Side"), tr("Scenario and rank")},
                               this);
  auto* sums = new QSplitter(Qt::Horizontal, panel_);
  sums->addWidget(table_of(identity_, tr("Time of the range"), sums));
  sums->addWidget(table_of(operations_, tr("Longest operations of the range"), sums));
  panel_->addTab(sums, tr("Range"));
  auto* jumps = table_of(exposed_, tr("Exposed communication"), panel_);
  const auto jump = [this](const QModelIndex& index) {
    const auto row = static_cast<std::size_t>(index.row());
    if (row < stretches_.size()) canvas_->go_to(stretches_[row].place);
  };
  connect(jumps, &QTableView::clicked, this, jump);
  connect(jumps, &QTableView::activated, this, jump);
  panel_->addTab(jumps, tr("Exposed communication"));
  auto* details = table_of(details_, tr("Details of the selected span"), panel_);
  panel_->addTab(details, tr("Selection"));
  connect(panel_, &QTabWidget::tabBarClicked, this, &TimelineView::open_tables);
  return box;
}

void TimelineView::divide() {
  constexpr int rows_first = 260;  // pixels
  constexpr int most_tables = 200;
  const int height = halves_->height();
  const int room = height - rows_first;
  const bool has_room = room >= few_tables();
  show_tables(has_room);
  const int tables = has_room ? std::min(room, most_tables) : 1;
  halves_->setSizes({height - tables, tables});
}

void TimelineView::show_tables(bool shown) {
  panel_->findChild<QStackedWidget*>()->setVisible(shown);
}

int TimelineView::few_tables() const {
  return panel_->tabBar()->sizeHint().height() + 4 * fontMetrics().height();
}

void TimelineView::open_tables() {
  if (panel_->height() >= few_tables()) return;
  is_divided_by_hand_ = true;
  show_tables(true);
  halves_->setSizes({halves_->height() / 2, halves_->height() / 2});
}

void TimelineView::connect_all() {
  Workspace& from = workspace();
  for (const auto signal :
       {&Workspace::pair_changed, &Workspace::ghost_changed, &Workspace::axis_changed})
    connect(&from, signal, this, &TimelineView::prepare);
  connect(&from, &Workspace::axis_changed, this,
          [this] { mode_->setCurrentIndex(static_cast<int>(workspace().time_mode())); });
  connect(mode_, &QComboBox::activated, this,
          [this](int mode) { workspace().set_time_mode(static_cast<TimeMode>(mode)); });
  for (const auto signal : {&Workspace::visible_changed, &Workspace::cursors_changed})
    connect(&from, signal, range_delay_, [this] {
      if (!range_delay_->isActive()) range_delay_->start();
    });
  connect(range_delay_, &QTimer::timeout, this, &TimelineView::sum_range);
  connect(canvas_, &TimelineCanvas::place_selected, this, &TimelineView::show_details);
  connect(&from, &Workspace::view_wanted, canvas_, [this](const QString& id) {
    if (id == objectName()) canvas_->bring_selection_into_sight();
  });
  connect(flows_, &QCheckBox::toggled, canvas_, &TimelineCanvas::show_flows);
  connect(canvas_, &TimelineCanvas::flows_shown, flows_, &QCheckBox::setChecked);
  connect(canvas_, &TimelineCanvas::rows_changed, this, &TimelineView::fit_scroll_bar);
  connect(canvas_, &TimelineCanvas::scrolled, this, &TimelineView::fit_scroll_bar);
  connect(scroll_bar_, &QScrollBar::valueChanged, canvas_,
          [this](int value) { canvas_->scroll_to(value); });
  connect(search_box_, &QLineEdit::textChanged, this, &TimelineView::search);
}

void TimelineView::prepare() {
  preparing_.request_stop();
  TimelineRequest request{.a = workspace().a(),
                          .b = workspace().b(),
                          .ghost = workspace().ghost(),
                          .mode = workspace().time_mode(),
                          .step = workspace().step(),
                          .known = data_->sources};
  for (const TimelineBlock& block : data_->blocks)
    for (const MemoryTrackPointer& track : {block.predicted_memory, block.profiled_memory})
      if (track) request.known_memory.push_back(track);
  preparing_ = workspace().tasks().run(
      this,
      [request = std::move(request)](std::stop_token stop) {
        return prepare_timeline(request, stop);
      },
      [this](TimelineData prepared) { show_prepared(std::move(prepared)); });
}

void TimelineView::show_prepared(TimelineData prepared) {
  data_ = std::make_shared<const TimelineData>(std::move(prepared));
  forget_figures();
  canvas_->show_data(data_);
  minimap_->show_data(data_);
  sum_range();
  search();
}

/// All that was found in the data before: its places mean nothing in the new ones.
void TimelineView::forget_figures() {
  summing_.request_stop();
  searching_.request_stop();
  summed_.reset();
  stretches_.clear();
  hits_ = std::make_shared<const SearchHits>();
  current_hit_.reset();
  spans_->show(data_, {});
  for (TextRowsModel* rows : {details_, identity_, operations_, exposed_}) rows->show({});
  explaining_.request_stop();
  tell_why({});
  panel_->setTabText(range_tab, tr("Range"));
  panel_->setTabText(exposed_tab, tr("Exposed communication"));
  hit_count_->clear();
}

void TimelineView::show_details() {
  explaining_.request_stop();
  tell_why({});
  if (!canvas_->selected()) return details_->show({});
  // Who goes down the list of exposed communication wants to keep it.
  if (panel_->currentIndex() != exposed_tab) panel_->setCurrentIndex(selection_tab);
  using Explained = std::pair<std::vector<SpanDetail>, std::string>;
  explaining_ = workspace().tasks().run(
      this,
      [data = data_, place = *canvas_->selected()](const std::stop_token&) {
        return Explained{span_details(*data, place), exposed_reason(*data, place)};
      },
      [this, place = *canvas_->selected()](const Explained& explained) {
        take_details(place, explained.first, explained.second);
      });
}

void TimelineView::take_details(const SpanPlace& place, const std::vector<SpanDetail>& details,
                                const std::string& reason) {
  std::vector<std::vector<TextCell>> rows;
  for (const SpanDetail& detail : details)
    rows.push_back({{text_of(detail.what)}, {text_of(detail.value)}});
  if (!reason.empty()) rows.insert(rows.begin() + 1, {{tr("why")}, {text_of(reason)}});
  details_->show(std::move(rows));
  tell_why(text_of(reason));
  say(*canvas_, text_of(announcement(details, reason)));
  if (!reason.empty()) ask_for_remedy(place);
}

void TimelineView::ask_for_remedy(const SpanPlace& place) {
  explaining_ = workspace().tasks().run(
      this,
      [data = data_, place](const std::stop_token& stop) {
        return prefetch_remedy(*data, place, stop);
      },
      [this](const std::string& remedy) {
        if (!remedy.empty()) tell_why(why_->text() + QStringLiteral("; ") + text_of(remedy));
      });
}

void TimelineView::tell_why(const QString& sentence) {
  why_->setText(sentence);
  why_->setAccessibleName(sentence);
  why_->setVisible(!sentence.isEmpty());
}

QString TimelineView::why() const { return why_->text(); }

void TimelineView::sum_range() {
  const TimeRange range = workspace().cursors().range.value_or(workspace().visible());
  if (summed_ == range || data_->sources.empty()) return;
  summed_ = range;
  if (workspace().cursors().range) panel_->setCurrentIndex(range_tab);
  spans_->show(data_, range);
  summing_.request_stop();
  using Sums = std::pair<RangeFigures, std::vector<ExposedStretch>>;
  summing_ = workspace().tasks().run(
      this,
      [data = data_, range](std::stop_token stop) {
        return Sums{range_figures(*data, range, stop), longest_exposed(*data, range, stop)};
      },
      [this](const Sums& sums) { show_range(sums.first, sums.second); });
}

void TimelineView::show_range(const RangeFigures& figures,
                              const std::vector<ExposedStretch>& exposed) {
  identity_->show(identity_rows(figures));
  operations_->show(operation_rows(figures));
  stretches_ = exposed;
  exposed_->show(exposed_rows(*data_, exposed));
  const bool is_dragged = workspace().cursors().range.has_value();
  const QString length = QString::fromStdString(
      rounded_text(Duration{static_cast<std::int64_t>(figures.range.length())}));
  panel_->setTabText(range_tab,
                     is_dragged ? tr("Range (%1)").arg(length) : tr("Visible (%1)").arg(length));
  panel_->setTabText(exposed_tab, tr("Exposed communication (%1)").arg(exposed.size()));
}

void TimelineView::search() {
  searching_.request_stop();
  searching_ = workspace().tasks().run(
      this,
      [data = data_, text = search_box_->text().toStdString()](std::stop_token stop) {
        return search_spans(*data, text, stop);
      },
      [this](SearchHits found) { show_hits(std::move(found)); });
}

void TimelineView::show_hits(SearchHits found) {
  hits_ = std::make_shared<const SearchHits>(std::move(found));
  current_hit_.reset();
  minimap_->show_hits(*hits_);
  canvas_->show_hits(hits_);
  count_hits();
}

void TimelineView::step_hit(int by) {
  const std::vector<SearchHit>& hits = hits_->hits;
  if (hits.empty()) return;
  const auto size = static_cast<std::ptrdiff_t>(hits.size());
  if (!current_hit_) {
    // The first from where one looks.
    const double time = workspace().visible().begin;
    const auto next =
        std::lower_bound(hits.begin(), hits.end(), time,
                         [](const SearchHit& hit, double at) { return hit.time < at; });
    const auto first = (next - hits.begin()) % size;
    current_hit_ = static_cast<std::size_t>(by > 0 ? first : (first - 1 + size) % size);
  } else {
    current_hit_ =
        static_cast<std::size_t>((static_cast<std::ptrdiff_t>(*current_hit_) + by + size) % size);
  }
  count_hits();
  const SearchHit hit = hits[*current_hit_];
  canvas_->show_current_hit(hit);
  canvas_->go_to(hit.place);
}

void TimelineView::count_hits() {
  const auto number = [](std::size_t count) {
    return QLocale(QLocale::English).toString(static_cast<qulonglong>(count));
  };
  const QString all = hits_->are_the_first
                          ? tr("the first %1 of more").arg(number(hits_->hits.size()))
                          : number(hits_->hits.size());
  if (search_box_->text().isEmpty())
    hit_count_->clear();
  else if (current_hit_)
    hit_count_->setText(tr("%1 of %2").arg(number(*current_hit_ + 1), all));
  else
    hit_count_->setText(hits_->hits.empty() ? tr("not found") : tr("%1 found").arg(all));
}

bool TimelineView::eventFilter(QObject* watched, QEvent* event) {
  if (watched == search_box_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      step_hit(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
      return true;
    }
    if (key->key() == Qt::Key_Escape) {
      canvas_->setFocus();
      return true;
    }
  }
  if (watched == halves_ && event->type() == QEvent::Resize && !is_divided_by_hand_) divide();
  return View::eventFilter(watched, event);
}

void TimelineView::fit_scroll_bar() {
  scroll_bar_->setPageStep(std::max(1, canvas_->height()));
  scroll_bar_->setSingleStep(20);
  scroll_bar_->setRange(0, static_cast<int>(canvas_->scroll_end()));
  scroll_bar_->setValue(static_cast<int>(canvas_->scroll()));
  scroll_bar_->setVisible(canvas_->scroll_end() > 0);
}

QAbstractItemModel* TimelineView::table() { return spans_; }

std::vector<Command> TimelineView::commands() {
  std::vector<Command> all = canvas_->commands();
  const QString group = tr("Timeline");
  all.push_back({.group = group, .text = tr("Search"), .keys = {Qt::Key_Slash}, .run = [this] {
                   search_box_->setFocus();
                   search_box_->selectAll();
                 }});
  all.push_back({.group = group,
                 .text = tr("Next search hit"),
                 .keys = {Qt::Key_N},
                 .run = [this] { step_hit(1); },
                 .is_enabled = [this] { return !hits_->hits.empty(); }});
  all.push_back({.group = group,
                 .text = tr("Previous search hit"),
                 .keys = {QKeySequence(Qt::SHIFT | Qt::Key_N)},
                 .run = [this] { step_hit(-1); },
                 .is_enabled = [this] { return !hits_->hits.empty(); }});
  return all;
}

void TimelineView::draw_page(QPainter& painter, QSize size) {
  constexpr int line = 24;
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  canvas_->draw(painter, QSize(size.width(), size.height() - line));
  draw_legend(painter, theme, QRectF(0, size.height() - line, size.width(), line));
}

}  // namespace shardscope::gui
