#include "gui/snapshots/snapshots_view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QItemSelectionModel>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTabWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/choice_box.h"
#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/snapshots/segments_canvas.h"
#include "gui/snapshots/snapshot_canvas.h"
#include "gui/snapshots/stack_pane.h"
#include "gui/table/column_table_model.h"
#include "gui/table/table_pane.h"

namespace shardscope::gui {
namespace {

void fill_box(QComboBox& box, const std::vector<SnapshotPlace>& places) {
  const QSignalBlocker quiet(&box);
  const QString before = box.currentText();
  box.clear();
  for (const SnapshotPlace& place : places) box.addItem(text_of(place.label));
  if (const int same = box.findText(before); same >= 0) box.setCurrentIndex(same);
  box.setEnabled(places.size() > 1);
}

void add_labelled(QHBoxLayout& line, const QString& text, QWidget* widget) {
  auto* label = new QLabel(text, widget->parentWidget());
  label->setBuddy(widget);
  line.addWidget(label);
  line.addWidget(widget);
}

/// Below the canvas, as its blocks are.
class SnapshotLegend : public QWidget {
 public:
  SnapshotLegend(SnapshotCanvas& canvas, QWidget* parent) : QWidget(parent), canvas_(canvas) {
    setFixedHeight(fontMetrics().height() + 6);
    setAccessibleName(SnapshotsView::tr("Colours of categories"));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    canvas_.draw_legend(painter, rect());
  }

 private:
  SnapshotCanvas& canvas_;
};

QComboBox* box_named(const QString& name, QWidget* parent) {
  auto* box = new ChoiceBox(parent);
  box->setAccessibleName(name);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(16);
  return box;
}

}  // namespace

SnapshotsView::SnapshotsView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("snapshots"), tr("Snapshots"), workspace, parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(make_bar());
  tabs_ = new QTabWidget(this);
  tabs_->setDocumentMode(true);
  tabs_->addTab(make_blocks(), tr("Blocks"));
  tabs_->addTab(make_segments(), tr("Segments"));
  tabs_->addTab(make_compare(), tr("Two snapshots"));
  stack_ = new StackPane(this);
  auto* splitter = new QSplitter(Qt::Horizontal, this);
  splitter->addWidget(tabs_);
  splitter->addWidget(stack_);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 1);
  splitter->setSizes({900, 340});
  column->addWidget(splitter, 1);
  setFocusProxy(canvas_);
  connect(&workspace, &Workspace::pair_changed, this, &SnapshotsView::fill_places);
  connect(&workspace, &Workspace::axis_changed, this, &SnapshotsView::prepare);
  connect(place_, &QComboBox::activated, this, &SnapshotsView::prepare);
  connect(canvas_, &SnapshotCanvas::block_chosen, this, &SnapshotsView::reveal_block);
  connect(segments_, &SegmentsCanvas::block_chosen, this, &SnapshotsView::show_final_block);
  for (QComboBox* box : {before_, after_, instant_, by_})
    connect(box, &QComboBox::activated, this, &SnapshotsView::compare);
  fill_places();
}

QWidget* SnapshotsView::make_bar() {
  auto* bar = new QWidget(this);
  auto* line = new QHBoxLayout(bar);
  line->setContentsMargins(6, 3, 6, 3);
  place_ = box_named(tr("Snapshot and device that is shown"), bar);
  place_->setMinimumContentsLength(28);
  add_labelled(*line, tr("Snapshot"), place_);
  summary_ = new QLabel(bar);
  summary_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  summary_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  line->addWidget(summary_, 1);
  return bar;
}

QWidget* SnapshotsView::make_blocks() {
  canvas_ = new SnapshotCanvas(workspace(), this);
  blocks_ = new ColumnTableModel(workspace().tasks(), this);
  blocks_pane_ = new TablePane(*blocks_, tr("Blocks"), this);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("Filter: words, category:workspace, bytes>1MiB, frame:forward"));
  filter_->setAccessibleName(tr("Filter of blocks"));
  filter_->setClearButtonEnabled(true);
  connect(filter_, &QLineEdit::textChanged, blocks_, &ColumnTableModel::filter);
  connect(blocks_pane_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& now) {
            if (is_revealing_ || !now.isValid()) return;
            canvas_->go_to(blocks_->row_at(now.row()));
          });
  auto* below = new QWidget(this);
  auto* column = new QVBoxLayout(below);
  column->setContentsMargins(0, 2, 0, 0);
  column->setSpacing(2);
  legend_ = new SnapshotLegend(*canvas_, below);
  column->addWidget(legend_);
  column->addWidget(filter_);
  column->addWidget(blocks_pane_, 1);
  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->addWidget(canvas_);
  splitter->addWidget(below);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 2);
  splitter->setSizes({460, 240});
  return splitter;
}

QWidget* SnapshotsView::make_segments() {
  auto* area = new QScrollArea(this);
  segments_ = new SegmentsCanvas(area);
  area->setWidget(segments_);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  return area;
}

QWidget* SnapshotsView::make_compare() {
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(4, 4, 4, 0);
  auto* line = new QHBoxLayout;
  before_ = box_named(tr("Earlier snapshot"), page);
  after_ = box_named(tr("Later snapshot"), page);
  instant_ = box_named(tr("When the two are compared"), page);
  instant_->addItems({tr("when they were taken"), tr("at their peaks")});
  by_ = box_named(tr("What a row is"), page);
  by_->addItems({tr("first useful frame"), tr("frame and size of a block")});
  add_labelled(*line, tr("Before"), before_);
  add_labelled(*line, tr("after"), after_);
  add_labelled(*line, tr("compared"), instant_);
  add_labelled(*line, tr("by"), by_);
  line->addStretch(1);
  compared_ = new QLabel(page);
  compared_->setWordWrap(true);
  growth_ = new ColumnTableModel(workspace().tasks(), this);
  growth_pane_ = new TablePane(*growth_, tr("What grew"), page);
  connect(growth_pane_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& now) {
            if (!now.isValid()) return;
            const std::uint32_t row = growth_->row_at(now.row());
            stack_->show_stack(text_of(growth_->table().text(0, row)), compared_->text(), {});
          });
  column->addLayout(line);
  column->addWidget(compared_);
  column->addWidget(growth_pane_, 1);
  return page;
}

void SnapshotsView::fill_places() {
  places_ = snapshot_places(workspace().a(), workspace().b());
  for (QComboBox* box : {place_, before_, after_}) fill_box(*box, places_);
  if (before_->currentIndex() == after_->currentIndex() && places_.size() > 1)
    after_->setCurrentIndex(before_->currentIndex() == 0 ? 1 : 0);
  prepare();
  compare();
}

void SnapshotsView::prepare() {
  preparing_.request_stop();
  const auto index = static_cast<std::size_t>(std::max(0, place_->currentIndex()));
  if (index >= places_.size()) return show_prepared(std::make_shared<const SnapshotAllocations>());
  const MemoryPictureRequest axis{
      .a = workspace().a(), .mode = workspace().time_mode(), .step = workspace().step()};
  preparing_ = workspace().tasks().run(
      this,
      [place = places_[index], axis](std::stop_token stop) {
        return std::make_shared<const SnapshotAllocations>(snapshot_allocations(place, axis, stop));
      },
      [this](const std::shared_ptr<const SnapshotAllocations>& prepared) {
        show_prepared(prepared);
      });
}

void SnapshotsView::show_prepared(std::shared_ptr<const SnapshotAllocations> prepared) {
  all_ = std::move(prepared);
  canvas_->show_allocations(all_);
  legend_->update();
  segments_->show_allocations(all_->place.scenario ? all_ : nullptr);
  blocks_->show(all_->table ? all_->table : std::make_shared<const ColumnTable>());
  const QString text = all_->place.scenario ? text_of(fragmentation_text(all_->state))
                                            : tr("Neither A nor B has a memory snapshot.");
  summary_->setText(text);
  summary_->setToolTip(text);
  stack_->show_nothing();
}

void SnapshotsView::compare() {
  comparing_.request_stop();
  const auto before = static_cast<std::size_t>(std::max(0, before_->currentIndex()));
  const auto after = static_cast<std::size_t>(std::max(0, after_->currentIndex()));
  if (before >= places_.size() || after >= places_.size() || before == after) {
    growth_->show(std::make_shared<const ColumnTable>());
    return compared_->setText(
        tr("Two snapshots are needed: open another one and choose it as B, or open both as one "
           "folder."));
  }
  const auto instant = static_cast<ComparedInstant>(instant_->currentIndex());
  const auto by = static_cast<GrowthBy>(by_->currentIndex());
  comparing_ = workspace().tasks().run(
      this,
      [a = places_[before], b = places_[after], instant, by](std::stop_token) {
        return std::make_shared<const ColumnTable>(growth_table(a, b, instant, by));
      },
      [this](const ColumnTablePointer& table) {
        growth_->show(table);
        const std::size_t growth = table->place_of("growth");
        double sum = 0;
        for (const double number : table->columns[growth].numbers) sum += number;
        const Bytes all{static_cast<std::int64_t>(std::abs(sum))};
        compared_->setText(sum < 0
                               ? tr("%1 less is alive after than before. What grew most is first.")
                                     .arg(text_of(rounded_text(all)))
                               : tr("%1 more is alive after than before. What grew most is first.")
                                     .arg(text_of(rounded_text(all))));
      });
}

void SnapshotsView::reveal_block() {
  const auto block = canvas_->chosen();
  if (!block) return stack_->show_nothing();
  show_block(*block);
  is_revealing_ = true;
  blocks_pane_->reveal(static_cast<std::uint32_t>(*block));
  is_revealing_ = false;
}

void SnapshotsView::show_block(std::size_t number) {
  const SnapshotAllocation& block = all_->blocks[number];
  stack_->show_stack(text_of(all_->names[block.stack]),
                     tr("%1 at 0x%2, %3, %4")
                         .arg(text_of(rounded_text(block.size)))
                         .arg(block.address, 0, 16)
                         .arg(text_of(band_name(block.band)), life_text(block)),
                     text_of(all_frames(all_->place.snapshot(), block.stack)));
}

void SnapshotsView::show_final_block(std::uint32_t number) {
  const MemorySnapshot& snapshot = all_->place.snapshot();
  const SnapshotBlock& block = snapshot.blocks[number];
  stack_->show_stack(text_of(innermost_telling_frame(snapshot, block.stack)),
                     block_text(*all_, number), text_of(all_frames(snapshot, block.stack)));
}

void SnapshotsView::show_tab(Tab tab) { tabs_->setCurrentIndex(tab); }

QString SnapshotsView::summary() const { return summary_->text(); }

QAbstractItemModel* SnapshotsView::table() { return blocks_; }

std::vector<Command> SnapshotsView::commands() { return canvas_->commands(); }

void SnapshotsView::draw_page(QPainter& painter, QSize size) {
  const int line = painter.fontMetrics().height() + 8;
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  canvas_->draw(painter, QSize(size.width(), size.height() - 2 * line));
  canvas_->draw_legend(painter, QRectF(0, size.height() - 2 * line, size.width(), line));
  painter.setPen(theme.faint_ink);
  painter.drawText(
      QRect(6, size.height() - line, size.width() - 12, line), Qt::AlignVCenter,
      painter.fontMetrics().elidedText(summary_->text(), Qt::ElideRight, size.width() - 12));
}

}  // namespace shardscope::gui
