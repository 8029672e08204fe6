#include "gui/window/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QContextMenuEvent>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QProgressBar>
#include <QPushButton>
#include <QScreen>
#include <QStatusBar>
#include <QToolBar>
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "gui/base/spoken.h"
#include "gui/base/theme.h"
#include "gui/data/find_scenario.h"
#include "gui/data/opened_text.h"
#include "gui/window/make_views.h"
#include "gui/window/menus.h"
#include "gui/window/message_banner.h"
#include "gui/window/mnemonics.h"
#include "gui/window/opening.h"
#include "gui/window/pair_bar.h"
#include "gui/window/reading_again.h"
#include "gui/window/session_keeper.h"
#include "gui/window/view_docks.h"
#include "gui/window/welcome_page.h"

namespace shardscope::gui {
namespace {

QString label_of(const ScenarioPointer& scenario) {
  return QString::fromStdString(scenario->label);
}

constexpr int opened_ms = 15'000;  ///< for which what was opened stands in the status bar

QStringList ids_of(const std::vector<View*>& views) {
  QStringList ids;
  for (const View* view : views) ids += view->objectName();
  return ids;
}

}  // namespace

QSize usual_size(QSize room) {
  constexpr int frame = 48;
  return QSize(1280, 800).boundedTo(room - QSize(0, frame));
}

MainWindow::MainWindow(QWidget* parent) : QMainWindow(parent) {
  speak_of_pages();
  setWindowTitle(tr("Shardscope"));
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
  opening_ = new Opening(workspace_, this);
  make_sessions();
  make_bars();
  welcome_ = new WelcomePage(this);
  welcome_->set_recent(settings_.recent());
  setCentralWidget(welcome_);
  docks_ = new ViewDocks(make_views(workspace_, this), this);
  docks_->set_shown(false);
  make_progress();
  make_menus();
  connect(&workspace_.tasks(), &Tasks::failed, this, &MainWindow::tell);
  connect(&workspace_, &Workspace::scenarios_changed, this, &MainWindow::show_scenarios);
  connect(&workspace_, &Workspace::pair_changed, this, &MainWindow::show_scenarios);
  connect(&workspace_, &Workspace::view_wanted, this, [this](const QString& id) {
    if (View* wanted = view(id)) show_view(wanted);
  });
  connect(welcome_, &WelcomePage::wants_file, this, &MainWindow::ask_for_files);
  connect(welcome_, &WelcomePage::wants_folder, this, &MainWindow::ask_for_folder);
  connect(welcome_, &WelcomePage::wants, this,
          [this](const QString& path) { open(path.toStdString()); });
  resize(usual_size(screen()->availableGeometry().size()));
}

MainWindow::~MainWindow() { delete docks_; }

const std::vector<View*>& MainWindow::views() const { return docks_->views(); }

View* MainWindow::view(const QString& id) const {
  const auto same = std::find_if(views().begin(), views().end(),
                                 [&](const View* view) { return view->objectName() == id; });
  return same == views().end() ? nullptr : *same;
}

void MainWindow::show_view(View* view) { docks_->bring_up(view); }

void MainWindow::show_alone(View* view, QSize size) {
  setAttribute(Qt::WA_DontShowOnScreen);
  welcome_->hide();
  docks_->show_only(view);
  show();
  // Bars and frames of the window come on top, and what they take is known once they are laid out.
  resize(size + this->size() - view->size());
  QApplication::processEvents();
  resize(size + this->size() - view->size());
  QApplication::processEvents();
}

void MainWindow::show_compared(QSize size) {
  setAttribute(Qt::WA_DontShowOnScreen);
  resize(size);
  show();  // before views are arranged: they want no more height than they need once they are shown
  QApplication::processEvents();
  if (shows_views_) docks_->arrange(Arrangement::compare);
  View* memory = view(QStringLiteral("memory"));
  if (shows_views_ && memory != nullptr) docks_->bring_up(memory);
  QApplication::processEvents();
  docks_->balance();
  QApplication::processEvents();
}

void MainWindow::open(const std::filesystem::path& path) {
  if (is_session_file(path)) return sessions_->open(path);
  if (const auto start = comparison_of(path)) return ask_for_comparison(*start);
  opening_->open(path);
}

void MainWindow::compare(const std::optional<std::string>& a, const std::optional<std::string>& b) {
  wanted_a_ = a;
  wanted_b_ = b;
  if (opening_->idle()) choose_pair();
}

std::vector<Command> MainWindow::commands() {
  std::vector<Command> all = window_commands();
  std::vector<View*> views = docks_->views();
  std::stable_partition(views.begin(), views.end(),
                        [this](const View* view) { return view == docks_->current(); });
  for (View* view : views) {
    for (const Command& command : view->commands()) {
      const bool is_there = std::any_of(all.begin(), all.end(), [&](const Command& other) {
        return other.group == command.group && other.text == command.text;
      });
      if (!is_there) all.push_back(command);
    }
  }
  return all;
}

void MainWindow::restore() {
  remembers_ = true;
  restoreGeometry(settings_.geometry());
  restoreState(settings_.layout(ids_of(views())));
  docks_->set_shown(shows_views_);
}

void MainWindow::set_appearance(AppearanceChoice choice) {
  appearance_ = choice;
  const Appearance appearance = choice == AppearanceChoice::system  ? system_appearance()
                                : choice == AppearanceChoice::light ? Appearance::light
                                                                    : Appearance::dark;
  gui::set_appearance(*qApp, appearance);
}

void MainWindow::make_sessions() {
  sessions_ =
      new SessionKeeper(workspace_, *opening_, *this,
                        {.now = [this] { return appearance_; },
                         .set = [this](AppearanceChoice choice) { set_appearance(choice); }});
  connect(sessions_, &SessionKeeper::told, this, &MainWindow::tell);
  again_ = new ReadingAgain(workspace_, *opening_, this);
  connect(again_, &ReadingAgain::told, this, &MainWindow::tell);
  again_->watch().start();
}

void MainWindow::make_bars() {
  pair_bar_ = new PairBar(workspace_, this);
  addToolBar(pair_bar_);
  addToolBarBreak();
  banner_ = new MessageBanner(this);
  banner_bar_ = addToolBar(tr("Messages"));
  banner_bar_->setObjectName(QStringLiteral("message_bar"));
  banner_bar_->setMovable(false);
  banner_bar_->addWidget(banner_);
  banner_bar_->hide();
  connect(banner_, &MessageBanner::changed, this,
          [this] { banner_bar_->setVisible(!banner_->messages().isEmpty()); });
}

void MainWindow::make_progress() {
  reading_ = new QLabel(this);
  progress_ = new QProgressBar(this);
  progress_->setObjectName(QStringLiteral("opening_progress"));
  progress_->setMaximumWidth(180);
  progress_->setAccessibleName(tr("How much is read"));
  cancel_ = new QPushButton(tr("Cancel"), this);
  cancel_->setObjectName(QStringLiteral("cancel_opening"));
  cancel_->setToolTip(tr("Stop reading; what is open stays"));
  statusBar()->addPermanentWidget(reading_);
  statusBar()->addPermanentWidget(progress_);
  statusBar()->addPermanentWidget(cancel_);
  connect(cancel_, &QPushButton::clicked, opening_, &Opening::cancel);
  connect(opening_, &Opening::progressed, this, &MainWindow::show_progress);
  connect(opening_, &Opening::failed, this, &MainWindow::tell);
  connect(opening_, &Opening::was_read, this, &MainWindow::tell_opened);
  connect(opening_, &Opening::opened, this, [this](const std::filesystem::path& path) {
    banner_->withdraw(QString::fromStdString(path.string()));
    if (!remembers_) return;
    settings_.add_recent(QString::fromStdString(std::filesystem::absolute(path).string()));
    welcome_->set_recent(settings_.recent());
  });
  connect(&workspace_.tasks(), &Tasks::idle_changed, this, &MainWindow::show_progress);
  show_progress();
}

void MainWindow::make_menus() {
  add_menus(*this, file_commands());
  add_menus(*this, compare_commands());
  add_menus(*this, view_commands());
  add_keys(*this, current_view_commands());
  add_menu(*this, tr("This view"), [this] {
    std::vector<Command> all = current_view_commands();
    const std::vector<Command> own =
        docks_->current() ? docks_->current()->commands() : std::vector<Command>();
    all.insert(all.end(), own.begin(), own.end());
    return all;
  });
  add_menus(*this, appearance_commands());
  add_menus(*this, help_commands());
  give_mnemonics(*menuBar());
}

void MainWindow::show_progress() {
  constexpr int steps = 1000;
  const bool is_reading = !opening_->idle();
  reading_->setText(is_reading ? tr("Reading %1").arg(opening_->what()) : QString());
  reading_->setVisible(is_reading);  // else nothing is left for messages
  progress_->setRange(0, is_reading ? steps : 0);
  progress_->setValue(static_cast<int>(std::lround(opening_->share() * steps)));
  progress_->setVisible(!workspace_.tasks().idle());
  cancel_->setVisible(is_reading);
}

void MainWindow::show_scenarios() {
  const bool has_some = !workspace_.scenarios().empty();
  if (has_some != std::exchange(shows_views_, has_some)) {
    welcome_->setVisible(!has_some);
    docks_->set_shown(has_some);
    if (has_some && !views().empty()) docks_->bring_up(views().front());
  }
  QString title = tr("Shardscope");
  if (workspace_.a()) title = label_of(workspace_.a());
  if (workspace_.a() && workspace_.b())
    title = tr("%1 and %2").arg(label_of(workspace_.a()), label_of(workspace_.b()));
  setWindowTitle(title);
  // What is wanted may be among what has just been opened.
  if (wanted_a_ || wanted_b_)
    QMetaObject::invokeMethod(
        this, [this] { choose_pair(); }, Qt::QueuedConnection);
}

void MainWindow::tell_opened(const std::filesystem::path& path,
                             const std::vector<ScenarioPointer>& scenarios) {
  statusBar()->showMessage(QString::fromStdString(opened_text(path, scenarios)), opened_ms);
  for (const ScenarioPointer& scenario : scenarios)
    for (const std::string& line : incomplete(*scenario))
      banner_->tell(QString::fromStdString(line));
}

void MainWindow::choose_pair() {
  if (!opening_->idle()) return;
  try {
    const auto& all = workspace_.scenarios();
    if (const auto a = std::exchange(wanted_a_, std::nullopt))
      workspace_.set_a(find_scenario(all, *a, "--a"));
    if (const auto b = std::exchange(wanted_b_, std::nullopt))
      workspace_.set_b(find_scenario(all, *b, "--b"));
  } catch (const Error& error) {
    tell(QString::fromUtf8(error.what()));
  }
}

void MainWindow::tell(const QString& failure) {
  banner_->tell(failure);
  Q_EMIT failed(failure);
}

bool MainWindow::may_close() {
  for (const View* view : views()) {
    const QString reason = view->why_not_close();
    if (reason.isEmpty()) continue;
    const auto answer =
        QMessageBox::question(this, tr("Close Shardscope?"), reason,
                              QMessageBox::Close | QMessageBox::Cancel, QMessageBox::Cancel);
    if (answer != QMessageBox::Close) return false;
  }
  return true;
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (!may_close()) return event->ignore();
  opening_->cancel();
  if (docks_->shows_only_one()) set_focus_mode(false);
  if (remembers_) settings_.set_window(saveGeometry(), saveState(), ids_of(views()));
  event->accept();
}

void MainWindow::contextMenuEvent(QContextMenuEvent* event) {
  View* view = docks_->view_around(childAt(event->pos()));
  if (view == nullptr) return QMainWindow::contextMenuEvent(event);
  docks_->bring_up(view);
  QMenu menu(this);
  for (const Command& command : current_view_commands()) {
    QAction* action = menu.addAction(command.text, this, command.run);
    action->setShortcuts(command.keys);
  }
  menu.exec(event->globalPos());
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile())
      open(url.toLocalFile().toStdString());
    else
      tell(tr("%1: is not on this machine; copy it here first").arg(url.toString()));
  }
}

}  // namespace shardscope::gui
