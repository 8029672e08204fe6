#include "gui/window/main_window.h"

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QLabel>
#include <QMenuBar>
#include <QMimeData>
#include <QProgressBar>
#include <QSignalBlocker>
#include <QStatusBar>
#include <QToolBar>
#include <algorithm>

#include "gui/data/open_scenarios.h"
#include "gui/theme.h"
#include "gui/window/make_views.h"

namespace shardscope::gui {
namespace {

/// Of a combo box of scenarios, the first entry being none.
int place_of(const Workspace& workspace, const ScenarioPointer& scenario) {
  const auto& all = workspace.scenarios();
  const auto place = std::find(all.begin(), all.end(), scenario);
  return place == all.end() ? 0 : static_cast<int>(place - all.begin()) + 1;
}

ScenarioPointer scenario_at(const Workspace& workspace, int place) {
  return place <= 0 ? nullptr : workspace.scenarios()[static_cast<std::size_t>(place - 1)];
}

}  // namespace

MainWindow::MainWindow(QWidget* parent) : QMainWindow(parent) {
  setWindowTitle(tr("Shardscope"));
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
  views_ = make_views(workspace_, this);
  make_docks();
  make_pair_bar();
  make_menus();
  progress_ = new QProgressBar(this);
  progress_->setRange(0, 0);
  progress_->setMaximumWidth(160);
  progress_->hide();
  statusBar()->addPermanentWidget(progress_);
  connect(&workspace_.tasks(), &Tasks::idle_changed, this,
          [this] { progress_->setVisible(!workspace_.tasks().idle()); });
  connect(&workspace_.tasks(), &Tasks::failed, this, &MainWindow::tell);
  resize(1280, 800);
}

View* MainWindow::view(const QString& id) const {
  const auto same = std::find_if(views_.begin(), views_.end(),
                                 [&](const View* view) { return view->objectName() == id; });
  return same == views_.end() ? nullptr : *same;
}

void MainWindow::show_view(View* view) {
  const auto place = std::find(views_.begin(), views_.end(), view);
  if (place == views_.end()) return;
  QDockWidget* dock = docks_[static_cast<std::size_t>(place - views_.begin())];
  dock->show();
  dock->raise();
  view->setFocus();
}

void MainWindow::open(const std::filesystem::path& path) {
  workspace_.tasks().run(
      this, [path](std::stop_token stop) { return open_scenarios(path, {.stop = stop}); },
      [this](const std::vector<ScenarioPointer>& scenarios) {
        for (const ScenarioPointer& scenario : scenarios) workspace_.add(scenario);
      });
}

void MainWindow::tell(const QString& failure) {
  statusBar()->showMessage(failure);
  Q_EMIT failed(failure);
}

void MainWindow::make_docks() {
  QDockWidget* before = nullptr;
  for (View* view : views_) {
    auto* dock = new QDockWidget(view->title(), this);
    dock->setObjectName(view->objectName() + QStringLiteral("_dock"));
    dock->setWidget(view);
    dock->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetFloatable |
                      QDockWidget::DockWidgetClosable);
    addDockWidget(Qt::TopDockWidgetArea, dock);
    if (before != nullptr) tabifyDockWidget(before, dock);
    before = dock;
    docks_.push_back(dock);
  }
  if (!docks_.empty()) docks_.front()->raise();
}

void MainWindow::make_pair_bar() {
  QToolBar* bar = addToolBar(tr("A and B"));
  bar->setObjectName(QStringLiteral("pair_bar"));
  bar->setMovable(false);
  const auto chooser = [&](const QString& label, const QString& name) {
    auto* text = new QLabel(label, bar);
    text->setMargin(4);
    auto* box = new QComboBox(bar);
    box->setAccessibleName(name);
    box->setMinimumContentsLength(22);
    bar->addWidget(text);
    bar->addWidget(box);
    return box;
  };
  a_ = chooser(tr("A"), tr("Scenario that is shown (A)"));
  b_ = chooser(tr("B"), tr("Scenario that it is compared with (B)"));
  connect(a_, &QComboBox::activated, this,
          [this](int place) { workspace_.set_a(scenario_at(workspace_, place + 1)); });
  connect(b_, &QComboBox::activated, this,
          [this](int place) { workspace_.set_b(scenario_at(workspace_, place)); });
  connect(&workspace_, &Workspace::scenarios_changed, this, &MainWindow::fill_pair_bar);
  connect(&workspace_, &Workspace::pair_changed, this, &MainWindow::fill_pair_bar);
  fill_pair_bar();
}

void MainWindow::fill_pair_bar() {
  const QSignalBlocker quiet_a(a_), quiet_b(b_);
  a_->clear();
  b_->clear();
  b_->addItem(tr("none"));
  for (const ScenarioPointer& scenario : workspace_.scenarios()) {
    const QString label = QString::fromStdString(scenario->label);
    for (QComboBox* box : {a_, b_}) {
      box->addItem(label);
      box->setItemData(box->count() - 1, QString::fromStdString(scenario->path.string()),
                       Qt::ToolTipRole);
    }
  }
  a_->setCurrentIndex(place_of(workspace_, workspace_.a()) - 1);
  b_->setCurrentIndex(place_of(workspace_, workspace_.b()));
}

std::vector<Command> MainWindow::window_commands() {
  std::vector<Command> all;
  all.push_back({.group = tr("File"),
                 .text = tr("Open file..."),
                 .keys = {QKeySequence::Open},
                 .run = [this] {
                   for (const QString& file : QFileDialog::getOpenFileNames(this, tr("Open")))
                     open(file.toStdString());
                 }});
  all.push_back({.group = tr("File"),
                 .text = tr("Open folder..."),
                 .keys = {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_O)},
                 .run = [this] {
                   const QString folder = QFileDialog::getExistingDirectory(this, tr("Open"));
                   if (!folder.isEmpty()) open(folder.toStdString());
                 }});
  all.push_back(
      {.group = tr("File"), .text = tr("Quit"), .keys = {QKeySequence::Quit}, .run = [this] {
         close();
       }});
  all.push_back({.group = tr("View"),
                 .text = tr("Undo zoom"),
                 .keys = {QKeySequence::Undo},
                 .run = [this] { workspace_.undo_zoom(); },
                 .is_enabled = [this] { return workspace_.zoom_history().can_undo(); }});
  all.push_back({.group = tr("View"),
                 .text = tr("Redo zoom"),
                 .keys = {QKeySequence(Qt::CTRL | Qt::Key_Y)},
                 .run = [this] { workspace_.redo_zoom(); },
                 .is_enabled = [this] { return workspace_.zoom_history().can_redo(); }});
  all.push_back({.group = tr("View"),
                 .text = tr("Swap A and B"),
                 .keys = {Qt::Key_X},
                 .run = [this] { workspace_.swap_a_and_b(); },
                 .is_enabled = [this] { return workspace_.b() != nullptr; }});
  for (View* view : views_)
    all.push_back(
        {.group = tr("View"), .text = view->title(), .run = [this, view] { show_view(view); }});
  return all;
}

std::vector<Command> MainWindow::commands() {
  std::vector<Command> all = window_commands();
  for (View* view : views_) {
    const std::vector<Command> more = view->commands();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

void MainWindow::make_menus() {
  for (const Command& command : window_commands()) {
    QMenu* menu = menuBar()->findChild<QMenu*>(command.group);
    if (menu == nullptr) {
      menu = menuBar()->addMenu(command.group);
      menu->setObjectName(command.group);
    }
    QAction* action = menu->addAction(command.text);
    action->setShortcuts(command.keys);
    connect(action, &QAction::triggered, this, command.run);
    if (command.is_enabled)
      connect(menu, &QMenu::aboutToShow, action,
              [action, enabled = command.is_enabled] { action->setEnabled(enabled()); });
  }
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) open(url.toLocalFile().toStdString());
}

}  // namespace shardscope::gui
