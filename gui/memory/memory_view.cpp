#include "gui/memory/memory_view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QItemSelectionModel>
#include <QLabel>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/base/choice_box.h"
#include "gui/base/spoken.h"
#include "gui/base/text.h"
#include "gui/data/source_match.h"
#include "gui/memory/band_legend.h"
#include "gui/memory/bytes_text.h"
#include "gui/memory/figures_panel.h"
#include "gui/memory/live_panel.h"
#include "gui/memory/memory_canvas.h"
#include "gui/memory/memory_levels_model.h"
#include "gui/memory/memory_rows.h"

namespace shardscope::gui {
MemoryView::MemoryView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("memory"), tr("Memory"), workspace, parent),
      canvas_(new MemoryCanvas(workspace, this)),
      legend_(new BandLegend(this)),
      source_(new ChoiceBox(this)),
      mode_(new ChoiceBox(this)),
      other_(new ChoiceBox(this)),
      panels_(new QTabWidget(this)),
      live_(new LivePanel(workspace, this)),
      peak_(new FiguresPanel(tr("Categories at the peak"), peak_header(), peak_bar_column, this)),
      change_(new FiguresPanel(tr("From cursor 1 to cursor 2"), change_header(), -1, this)),
      units_(new FiguresPanel(tr("A and B at their peaks"), unit_header(), unit_bar_column, this)),
      model_(new MemoryLevelsModel(this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  auto* bar = new QHBoxLayout;
  make_bar(bar);
  column->addLayout(bar);
  auto* splitter = new QSplitter(Qt::Horizontal, this);
  make_panels(splitter);
  column->addWidget(splitter, 1);
  setFocusProxy(canvas_);

  for (const auto signal :
       {&Workspace::pair_changed, &Workspace::ghost_changed, &Workspace::axis_changed})
    connect(&workspace, signal, this, &MemoryView::prepare);
  connect(&workspace, &Workspace::cursors_changed, this, &MemoryView::follow_cursors);
  connect(&workspace, &Workspace::selection_changed, this, &MemoryView::follow_selection);
  connect(legend_, &BandLegend::shown_changed, this, &MemoryView::prepare);
  connect(canvas_, &MemoryCanvas::instant_chosen, this, &MemoryView::share_instant);
  connect(canvas_, &MemoryCanvas::look_changed, this,
          [this] { other_->setCurrentIndex(static_cast<int>(canvas_->look().other)); });
  connect(peak_->table()->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& current) { select_band(current.row()); });
  prepare();
}

void MemoryView::make_bar(QHBoxLayout* bar) {
  bar->setContentsMargins(4, 2, 4, 0);
  const auto add = [&](const QString& label, QComboBox* box, const QString& name) {
    auto* text = new QLabel(label, this);
    text->setBuddy(box);
    box->setAccessibleName(name);
    box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    bar->addWidget(text);
    bar->addWidget(box);
  };
  add(tr("Of"), source_, tr("Rank or file that is shown"));
  for (const QString& text : {tr("time"), tr("step"), tr("unit")}) mode_->addItem(text);
  mode_->setCurrentIndex(static_cast<int>(workspace().time_mode()));
  mode_->setToolTip(
      tr("time: each side's own clock; step: since the step's begin; unit: units are "
         "laid where they begin in the prediction"));
  add(tr("By"), mode_, tr("What the time axis means"));
  for (const QString& text : {tr("hidden"), tr("below"), tr("outline")}) other_->addItem(text);
  other_->setCurrentIndex(static_cast<int>(canvas_->look().other));
  add(tr("B"), other_, tr("Where the second scenario is drawn"));
  bar->addWidget(legend_, 1);
  connect(source_, &QComboBox::activated, this, &MemoryView::prepare);
  connect(mode_, &QComboBox::activated, this,
          [this](int mode) { workspace().set_time_mode(static_cast<TimeMode>(mode)); });
  connect(&workspace(), &Workspace::axis_changed, this,
          [this] { mode_->setCurrentIndex(static_cast<int>(workspace().time_mode())); });
  connect(other_, &QComboBox::activated, this, [this](int other) {
    MemoryLook look = canvas_->look();
    look.other = static_cast<OtherScenario>(other);
    canvas_->set_look(look);
  });
}

void MemoryView::make_panels(QSplitter* splitter) {
  panels_->setAccessibleName(tr("Figures of memory"));
  panels_->addTab(peak_, tr("At the peak"));
  panels_->addTab(live_, tr("Alive"));
  connect(live_, &LivePanel::told, this,
          [this](const QString& sentence) { say(*canvas_, sentence); });
  panels_->addTab(change_, tr("Cursors 1 to 2"));
  panels_->addTab(units_, tr("A against B"));
  splitter->addWidget(canvas_);
  splitter->addWidget(panels_);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 1);
  splitter->setSizes({760, 500});
}

QAbstractItemModel* MemoryView::table() { return model_; }

std::vector<Command> MemoryView::commands() { return canvas_->commands(); }

void MemoryView::prepare() {
  fill_sources();
  const MemoryPictureRequest request{
      .a = workspace().a(),
      .b = workspace().b(),
      .ghost = workspace().ghost(),
      .mode = workspace().time_mode(),
      .step = workspace().step(),
      .whole = workspace().whole(),
      .source = static_cast<std::size_t>(std::max(0, source_->currentIndex())),
      .shown = legend_->shown(),
      .selected = selected_};
  // A choice of A or B changes the axis, too: both are told.
  if (request == prepared_) return;
  prepared_ = request;
  preparing_.request_stop();
  preparing_ = workspace().tasks().run(
      this,
      [request, before = canvas_->shared_picture()](std::stop_token stop) {
        return std::make_shared<const MemoryPicture>(memory_picture(request, stop, *before));
      },
      [this](const std::shared_ptr<const MemoryPicture>& picture) { show_picture(picture); });
}

void MemoryView::fill_sources() {
  QStringList labels;
  if (const ScenarioPointer& a = workspace().a())
    for (const MemorySource& source : sources_to_choose(*a)) labels << text_of(source.label);
  QStringList shown;
  for (int i = 0; i < source_->count(); ++i) shown << source_->itemText(i);
  if (shown == labels) return;
  source_->clear();
  source_->addItems(labels);
}

void MemoryView::show_picture(const std::shared_ptr<const MemoryPicture>& picture) {
  const MemoryPicture& before = canvas_->picture();
  const bool is_ghost_alone = picture->a && picture->a == before.a && picture->b == before.b;
  canvas_->set_picture(picture);
  if (is_ghost_alone) return;
  legend_->set_held(picture->held);
  other_->setEnabled(picture->b != nullptr);
  model_->show(picture);
  if (picture->empty())
    peak_->show(tr("There is no memory over time."), {});
  else
    peak_->show(peak_text(*picture->a) + unmatched_text(*picture), peak_rows(*picture->a));
  mark_selected_band();
  show_live();
  show_change();
  show_units();
}

std::optional<MemoryView::Instant> MemoryView::instant_at(SideKind side,
                                                          std::optional<std::size_t> level) const {
  const auto& curve = canvas_->picture().a->side(side);
  if (!curve || !level) return std::nullopt;
  return Instant{.scenario = canvas_->picture().a->scenario,
                 .source = curve->source,
                 .level = curve->levels.levels[*level]};
}

std::optional<MemoryView::Instant> MemoryView::peak_of(
    const std::shared_ptr<const ScenarioCurves>& curves) const {
  if (!curves) return std::nullopt;
  for (const SideKind kind : {SideKind::profiled, SideKind::predicted})
    if (const auto& curve = curves->side(kind); curve && curve->peak)
      return Instant{.scenario = curves->scenario,
                     .source = curve->source,
                     .level = curve->levels.levels[*curve->peak]};
  return std::nullopt;
}

void MemoryView::show_live() {
  listing_.request_stop();
  const MemoryPicture& picture = canvas_->picture();
  if (!canvas_->instant()) return;
  if (picture.empty()) return live_->clear(tr("There is no memory over time."));
  const SideKind side = canvas_->side();
  const auto instant = instant_at(side, canvas_->chosen_level());
  if (!instant)
    return live_->clear(tr("The %1 side has nothing there.").arg(text_of(name_of(side))));
  if (!has_buffers(*instant->scenario, instant->source))
    return live_->clear(
        tr("The bands are known at that instant, but not the buffers in them: "
           "predicted/buffers.json.gz of the run, or a memory snapshot, has them."));
  const QString heading = tr("%1, alive at %2")
                              .arg(text_of(name_of(side)),
                                   QString::fromStdString(rounded_text(
                                       Duration{static_cast<std::int64_t>(*canvas_->instant())})));
  listing_ = workspace().tasks().run(
      this,
      [instant = *instant](std::stop_token) {
        return std::make_shared<const LiveSet>(
            live_set(*instant.scenario, instant.source, instant.level));
      },
      [this, heading](const std::shared_ptr<const LiveSet>& set) { live_->show(set, heading); });
}

void MemoryView::follow_cursors() {
  // The mouse is one of them, and moves a lot.
  const Cursors& now = workspace().cursors();
  if (now.a == a_ && now.b == b_) return;
  a_ = now.a;
  b_ = now.b;
  if (a_ && b_) panels_->setCurrentWidget(change_);
  show_change();
}

void MemoryView::show_change() {
  changing_.request_stop();
  const MemoryPicture& picture = canvas_->picture();
  const Cursors& cursors = workspace().cursors();
  if (picture.empty() || !cursors.a || !cursors.b)
    return change_->show(tr("Set the cursors 1 and 2: keys 1 and 2, or Alt+click twice."), {});
  const SideKind side = canvas_->side();
  const MemorySideCurve& curve = *picture.a->side(side);
  const auto a = instant_at(side, canvas_->level_at(curve, *cursors.a));
  const auto b = instant_at(side, canvas_->level_at(curve, *cursors.b));
  if (!a || !b || !has_buffers(*a->scenario, a->source))
    return change_->show(tr("Nothing is known of the buffers at A or at B."), {});
  changing_ = workspace().tasks().run(
      this,
      [a = *a, b = *b](std::stop_token) {
        const LiveChange change = change_between(live_set(*a.scenario, a.source, a.level),
                                                 live_set(*b.scenario, b.source, b.level));
        return std::pair(change_text(change), change_rows(change));
      },
      [this](std::pair<QString, std::vector<CellsModel::Row>> shown) {
        change_->show(shown.first, std::move(shown.second));
      });
}

void MemoryView::show_units() {
  comparing_.request_stop();
  const auto a = peak_of(canvas_->picture().a), b = peak_of(canvas_->picture().b);
  if (!a || !b)
    return units_->show(tr("Choose a second scenario as B for what one holds at its peak and the "
                           "other does not.") +
                            unmatched_text(canvas_->picture()),
                        {});
  const auto name = [](const Instant& instant) {
    return tr("%1 (%2, %3)")
        .arg(text_of(instant.scenario->label), text_of(name_of(instant.source.side)),
             text_of(instant.source.label));
  };
  const QString heading = tr("At their peaks A, %1, holds %2 and B, %3, holds %4.")
                              .arg(name(*a), rounded_bytes(a->level.bytes.total()), name(*b),
                                   rounded_bytes(b->level.bytes.total())) +
                          unmatched_text(canvas_->picture());
  comparing_ = workspace().tasks().run(
      this,
      [a = *a, b = *b](std::stop_token) {
        return held_by_unit(live_set(*a.scenario, a.source, a.level),
                            live_set(*b.scenario, b.source, b.level));
      },
      [this, heading](const std::vector<HeldByUnit>& held) {
        units_->show(heading, unit_rows(held));
      });
}

void MemoryView::share_instant() {
  const MemoryPicture& picture = canvas_->picture();
  if (picture.empty() || !canvas_->instant()) return;
  panels_->setCurrentWidget(live_);
  show_live();
  const SideKind side = canvas_->side();
  const auto instant = instant_at(side, canvas_->chosen_level());
  if (!instant) return;
  Selection selection{
      .scenario = picture.a->scenario,
      .side = side,
      .rank = instant->source.kind == MemorySource::Kind::rank ? instant->source.index : 0,
      .operation = instant->level.operation};
  is_sharing_ = true;
  workspace().select(selection);
  is_sharing_ = false;
}

void MemoryView::follow_selection() {
  const Selection& selection = workspace().selection();
  if (is_sharing_ || !selection.time || selection.scenario != workspace().a()) return;
  canvas_->follow(selection.side, selection.time->begin);
  show_live();
}

std::optional<std::size_t> MemoryView::band_of_row(int row) const {
  if (row <= 0) return std::nullopt;  // the first is the total
  const QString letter = peak_->model()->row(row).front().text.left(1);
  for (std::size_t band = 0; band < memory_band_count; ++band)
    if (letter == QLatin1Char(band_letter(band))) return band;
  return std::nullopt;
}

void MemoryView::mark_selected_band() {
  QItemSelectionModel* selection = peak_->table()->selectionModel();
  const QSignalBlocker quiet(selection);
  for (int row = 0; selected_ && row < peak_->model()->rowCount(); ++row)
    if (band_of_row(row) == selected_) peak_->table()->selectRow(row);
}

void MemoryView::select_band(int row) {
  const std::optional<std::size_t> band = band_of_row(row);
  if (band == selected_) return;
  selected_ = band;
  prepare();
}

}  // namespace shardscope::gui
