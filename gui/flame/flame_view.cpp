#include "gui/flame/flame_view.h"

#include <QCheckBox>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QScrollArea>
#include <QTabBar>
#include <QVBoxLayout>
#include <utility>

#include "gui/base/pair_picker.h"
#include "gui/base/text.h"
#include "gui/base/theme.h"
#include "gui/flame/flame_canvas.h"
#include "gui/table/column_table_model.h"

namespace shardscope::gui {
namespace {

/// The arrows are those of the canvas.
class CanvasScroll : public QScrollArea {
 public:
  using QScrollArea::QScrollArea;

 protected:
  void keyPressEvent(QKeyEvent* event) override { event->ignore(); }
};

/// A stack of a snapshot may have 200 frames; the figures are at the end.
QString shortened(const QString& told) {
  constexpr qsizetype half = 300;
  if (told.size() <= 2 * half) return told;
  return told.left(half) + QStringLiteral(" ... ") + told.right(half);
}

/// The legend below the canvas.
class FlameLegend : public QWidget {
 public:
  FlameLegend(const FlameCanvas& canvas, QWidget* parent) : QWidget(parent), canvas_(canvas) {
    setFixedHeight(fontMetrics().height() + 6);
    setAccessibleName(FlameView::tr("What colours mean"));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.fillRect(rect(), theme_of(*this).background);
    canvas_.draw_legend(painter, rect());
  }

 private:
  const FlameCanvas& canvas_;
};

}  // namespace

FlameView::FlameView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("flame"), tr("Flame graph"), workspace, parent) {
  model_ = new ColumnTableModel(workspace.tasks(), this);
  scroll_ = new CanvasScroll(this);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setWidgetResizable(true);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setFocusPolicy(Qt::NoFocus);
  canvas_ = new FlameCanvas(scroll_);
  scroll_->setWidget(canvas_);
  told_ = new QLabel(this);
  told_->setObjectName(QStringLiteral("flame_told"));
  told_->setTextFormat(Qt::PlainText);
  told_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  told_->setWordWrap(true);
  told_->setMargin(5);
  told_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(make_bar());
  layout->addWidget(scroll_, 1);
  legend_ = new FlameLegend(*canvas_, this);
  layout->addWidget(legend_);
  layout->addWidget(told_);
  setFocusProxy(canvas_);
  connect(picker_, &PairPicker::changed, this, &FlameView::read);
  connect(&workspace, &Workspace::ghost_changed, this, &FlameView::read);
  connect(kinds_, &QTabBar::currentChanged, this, &FlameView::read);
  connect(search_, &QLineEdit::textChanged, this, &FlameView::find);
  connect(one_scale_, &QCheckBox::toggled, this, [this](bool is_shared) {
    canvas_->set_scale(is_shared ? FlameScale::shared : FlameScale::own);
  });
  connect(canvas_, &FlameCanvas::scale_changed, one_scale_, &QCheckBox::setChecked);
  connect(canvas_, &FlameCanvas::current_changed, this, [this] {
    const QString told = canvas_->told();
    told_->setText(shortened(told));
    told_->setAccessibleName(told);
    bring_into_sight();
  });
  read();
}

QWidget* FlameView::make_bar() {
  auto* bar = new QWidget(this);
  kinds_ = new QTabBar(bar);
  kinds_->setObjectName(QStringLiteral("flame_kinds"));
  kinds_->setAccessibleName(tr("Time, or memory at the peak"));
  kinds_->setDrawBase(false);
  kinds_->addTab(tr("Time"));
  kinds_->addTab(tr("Memory at the peak"));
  picker_ = new PairPicker(QStringLiteral("flame"), workspace(), bar);
  search_ = new QLineEdit(bar);
  search_->setPlaceholderText(tr("Search names (/)"));
  search_->setAccessibleName(tr("Search names"));
  search_->setClearButtonEnabled(true);
  search_->setMaximumWidth(340);
  search_->installEventFilter(this);
  found_ = new QLabel(bar);
  found_->setMinimumWidth(90);
  one_scale_ = new QCheckBox(tr("One scale"), bar);
  one_scale_->setChecked(true);
  one_scale_->setToolTip(
      tr("Equal widths are equal amounts in all runs. Without it each run fills the width (O)."));
  auto* layout = new QHBoxLayout(bar);
  layout->setContentsMargins(4, 3, 6, 3);
  layout->addWidget(kinds_);
  layout->addWidget(picker_);
  layout->addWidget(search_, 1);
  layout->addWidget(found_);
  layout->addStretch(1);
  layout->addWidget(one_scale_);
  return bar;
}

void FlameView::read() {
  reading_.request_stop();
  // Nobody waits for a picture that is out of sight.
  is_stale_ = !isVisible();
  if (is_stale_) return;
  const FlameQuestion question{.scenario = picker_->shown(),
                               .other = picker_->other(),
                               .ghost = workspace().ghost(),
                               .rank = picker_->rank(),
                               .of = static_cast<FlameOf>(kinds_->currentIndex())};
  reading_ = workspace().tasks().run(
      this, [question](const std::stop_token& stop) { return flame_picture(question, stop); },
      [this](FlamePicture picture) { take(std::move(picture)); });
}

void FlameView::showEvent(QShowEvent* event) {
  View::showEvent(event);
  if (is_stale_) read();
}

void FlameView::take(FlamePicture picture) {
  auto ready = std::make_shared<const FlamePicture>(std::move(picture));
  model_->show(ready->table);
  canvas_->show_picture(std::move(ready));
  legend_->update();
  find();
}

void FlameView::find() {
  FlameMatches matches =
      flame_matches(canvas_->picture().tree, search_->text().trimmed().toStdString());
  const FlamePicture& picture = canvas_->picture();
  QStringList parts;
  for (std::size_t run = 0; run < picture.runs.size(); ++run)
    if (!picture.runs[run].title.empty())
      parts += text_of(amount_text(picture.of, matches.amounts[run]));
  if (search_->text().trimmed().isEmpty())
    found_->clear();
  else if (matches.nodes.empty())
    found_->setText(tr("not found"));
  else
    found_->setText(tr("%1 found: %2")
                        .arg(matches.nodes.size())
                        .arg(parts.join(tr(" and ", "amounts of two runs"))));
  canvas_->show_matches(std::move(matches));
}

void FlameView::bring_into_sight() {
  for (std::size_t run = 0; run < flame_runs; ++run) {
    const QRectF where = canvas_->rectangle_of(canvas_->current(), run);
    if (where.isNull()) continue;
    scroll_->ensureVisible(static_cast<int>(where.left()), static_cast<int>(where.center().y()), 0,
                           static_cast<int>(where.height()));
    return;
  }
}

void FlameView::show_kind(FlameOf of) { kinds_->setCurrentIndex(static_cast<int>(of)); }
void FlameView::search(const QString& text) { search_->setText(text); }
void FlameView::show_pair() { picker_->choose_pair(); }
QString FlameView::told() const { return told_->text(); }
QString FlameView::found() const { return found_->text(); }

QAbstractItemModel* FlameView::table() { return model_; }

std::vector<Command> FlameView::commands() {
  std::vector<Command> all = canvas_->commands();
  const QString group = title();
  const auto add = [&](const QString& text, QList<QKeySequence> keys, std::function<void()> run) {
    all.push_back({.group = group, .text = text, .keys = std::move(keys), .run = std::move(run)});
  };
  add(tr("Search"), {Qt::Key_Slash, QKeySequence::Find}, [this] {
    search_->setFocus();
    search_->selectAll();
  });
  add(tr("Next found node"), {Qt::Key_N}, [this] { canvas_->step_match(1); });
  add(tr("Previous found node"), {QKeySequence(Qt::SHIFT | Qt::Key_N)},
      [this] { canvas_->step_match(-1); });
  add(tr("Flame graph of time"), {Qt::Key_T}, [this] { show_kind(FlameOf::time); });
  add(tr("Flame graph of memory at the peak"), {Qt::Key_M}, [this] { show_kind(FlameOf::memory); });
  all.push_back({.group = group,
                 .text = tr("A against B"),
                 .run = [this] { show_pair(); },
                 .is_enabled = [this] { return workspace().b() != nullptr; },
                 .is_checked = [this] { return picker_->is_pair(); }});
  return all;
}

bool FlameView::eventFilter(QObject* watched, QEvent* event) {
  if (watched == search_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      canvas_->step_match(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
      return true;
    }
    if (key->key() == Qt::Key_Escape) {
      canvas_->setFocus();
      return true;
    }
  }
  return View::eventFilter(watched, event);
}

void FlameView::draw_page(QPainter& painter, QSize size) {
  constexpr int line = 24;
  canvas_->draw(painter, QSize(size.width(), size.height() - line));
  canvas_->draw_legend(painter, QRectF(0, size.height() - line, size.width(), line));
}

}  // namespace shardscope::gui
