// What can be done in the window as a whole.
#include <QFileDialog>
#include <QMenuBar>
#include <QMessageBox>
#include <QStatusBar>
#include <iterator>

#include "core/base/error.h"
#include "core/base/version.h"
#include "gui/export/export_dialog.h"
#include "gui/window/command_palette.h"
#include "gui/window/key_sheet.h"
#include "gui/window/main_window.h"
#include "gui/window/new_comparison_dialog.h"
#include "gui/window/opening.h"
#include "gui/window/pair_bar.h"
#include "gui/window/reading_again.h"
#include "gui/window/session_keeper.h"
#include "gui/window/view_docks.h"

namespace shardscope::gui {
namespace {

constexpr int message_ms = 8000;

void append(std::vector<Command>& all, std::vector<Command> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<Command> MainWindow::window_commands() {
  std::vector<Command> all = file_commands();
  append(all, compare_commands());
  append(all, view_commands());
  append(all, current_view_commands());
  append(all, appearance_commands());
  append(all, help_commands());
  return all;
}

std::vector<Command> MainWindow::file_commands() {
  std::vector<Command> all = opening_commands();
  append(all, sessions_->commands());
  append(all, again_->commands());
  all.push_back({.group = tr("File"),
                 .text = tr("Quit"),
                 .keys = {QKeySequence(Qt::CTRL | Qt::Key_Q)},
                 .run = [this] { close(); }});
  return all;
}

std::vector<Command> MainWindow::opening_commands() {
  const QString group = tr("File");
  return {{.group = group,
           .text = tr("New comparison..."),
           .keys = {QKeySequence::New},
           .run = [this] { ask_for_comparison({}); },
           .icon = QStyle::SP_FileIcon},
          {.group = group,
           .text = tr("Open file..."),
           .keys = {QKeySequence::Open},
           .run = [this] { ask_for_files(); },
           .icon = QStyle::SP_DialogOpenButton},
          {.group = group,
           .text = tr("Open folder..."),
           .keys = {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_O)},
           .run = [this] { ask_for_folder(); },
           .icon = QStyle::SP_DirOpenIcon},
          {.group = group,
           .text = tr("Open again..."),
           .keys = {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_R)},
           .run =
               [this] {
                 const QStringList paths = settings_.recent();
                 choose_among(tr("Open"), {paths.begin(), paths.end()},
                              [this, paths](std::size_t place) {
                                open(paths[static_cast<qsizetype>(place)].toStdString());
                              });
               },
           .is_enabled = [this] { return !settings_.recent().isEmpty(); },
           .icon = QStyle::SP_FileDialogDetailedView},
          {.group = group,
           .text = tr("Close A"),
           .keys = {QKeySequence(Qt::CTRL | Qt::Key_W)},
           .run = [this] { workspace_.remove(workspace_.a()); },
           .is_enabled = [this] { return workspace_.a() != nullptr; },
           .icon = QStyle::SP_DialogCloseButton}};
}

std::vector<Command> MainWindow::compare_commands() {
  const QString group = tr("Compare");
  const auto has_some = [this] { return !workspace_.scenarios().empty(); };
  const auto has_b = [this] { return workspace_.b() != nullptr; };
  return {{.group = group,
           .text = tr("Choose A..."),
           .keys = {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_A)},
           .run = [this] { choose_scenario(tr("A"), &Workspace::set_a); },
           .is_enabled = has_some},
          {.group = group,
           .text = tr("Choose B..."),
           .keys = {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_B)},
           .run = [this] { choose_scenario(tr("B"), &Workspace::set_b); },
           .is_enabled = has_some},
          {.group = group,
           .text = tr("Swap A and B"),
           .keys = {Qt::Key_X},
           .run = [this] { workspace_.swap_a_and_b(); },
           .is_enabled = has_b,
           .icon = QStyle::SP_BrowserReload},
          {.group = group,
           .text = tr("Compare with nothing"),
           .run = [this] { workspace_.set_b(nullptr); },
           .is_enabled = has_b}};
}

std::vector<Command> MainWindow::view_commands() {
  const QString group = tr("View");
  const auto has_views = [this] { return shows_views_; };
  std::vector<Command> all;
  for (std::size_t i = 0; i < views().size(); ++i) {
    View* view = views()[i];
    all.push_back(
        {.group = group,
         .text = view->title(),
         .keys = {QKeySequence(static_cast<int>(Qt::CTRL) | static_cast<int>(Qt::Key_1 + i))},
         .run = [this, view] { show_view(view); }});
  }
  append(all, {{.group = group,
                .text = tr("Arrange: one behind the other"),
                .run = [this] { docks_->arrange(Arrangement::tabs); },
                .is_enabled = has_views},
               {.group = group,
                .text = tr("Arrange: memory over timeline"),
                .keys = {QKeySequence(Qt::CTRL | Qt::Key_0)},
                .run = [this] { docks_->arrange(Arrangement::compare); },
                .is_enabled = has_views},
               {.group = group,
                .text = tr("Only this view"),
                .keys = {Qt::Key_F11},
                .run = [this] { set_focus_mode(!docks_->shows_only_one()); },
                .is_enabled = has_views,
                .is_checked = [this] { return docks_->shows_only_one(); },
                .icon = QStyle::SP_TitleBarMaxButton},
               {.group = group,
                .text = tr("Undo zoom"),
                .keys = {QKeySequence::Undo},
                .run = [this] { workspace_.undo_zoom(); },
                .is_enabled = [this] { return workspace_.zoom_history().can_undo(); },
                .icon = QStyle::SP_ArrowBack},
               {.group = group,
                .text = tr("Redo zoom"),
                .keys = {QKeySequence(Qt::CTRL | Qt::Key_Y)},
                .run = [this] { workspace_.redo_zoom(); },
                .is_enabled = [this] { return workspace_.zoom_history().can_redo(); },
                .icon = QStyle::SP_ArrowForward}});
  return all;
}

std::vector<Command> MainWindow::current_view_commands() {
  const QString group = tr("This view");
  const auto pane = [this] { return docks_->pane_of(docks_->current()); };
  return {{.group = group,
           .text = tr("Its figures as a table"),
           .keys = {QKeySequence(Qt::CTRL | Qt::Key_T)},
           .run = [pane] { pane()->show_table(!pane()->shows_table()); },
           .is_enabled = [pane] { return pane() != nullptr; },
           .is_checked = [pane] { return pane() != nullptr && pane()->shows_table(); },
           .icon = QStyle::SP_FileDialogListView},
          {.group = group,
           .text = tr("Export..."),
           .keys = {QKeySequence(Qt::CTRL | Qt::Key_E)},
           .run = [this] { export_current(); },
           .is_enabled = [pane] { return pane() != nullptr; },
           .icon = QStyle::SP_DialogSaveButton}};
}

std::vector<Command> MainWindow::appearance_commands() {
  const auto entry = [this](const QString& text, AppearanceChoice choice) {
    return Command{.group = tr("Appearance"),
                   .text = text,
                   .run =
                       [this, choice] {
                         set_appearance(choice);
                         settings_.set_appearance(choice);
                       },
                   .is_checked = [this, choice] { return appearance_ == choice; }};
  };
  return {entry(tr("As the desktop"), AppearanceChoice::system),
          entry(tr("Light"), AppearanceChoice::light), entry(tr("Dark"), AppearanceChoice::dark)};
}

std::vector<Command> MainWindow::help_commands() {
  const QString group = tr("Help");
  return {
      {.group = group,
       .text = tr("Find a command..."),
       .keys = {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P), Qt::Key_F1},
       .run = [this] { (new CommandPalette(commands(), this))->show(); },
       .icon = QStyle::SP_FileDialogContentsView},
      {.group = group,
       .text = tr("Keys"),
       .keys = {Qt::Key_Question},
       .run = [this] { (new KeySheet(commands(), this))->show(); },
       .icon = QStyle::SP_DialogHelpButton},
      {.group = group,
       .text = tr("About"),
       .run =
           [this] {
             const std::string_view version = program_version();
             QMessageBox::about(
                 this, tr("Shardscope"),
                 tr("Shardscope %1\nPredicts memory and time of sharded training, really trains, "
                    "and lays the two over each other.\nQt %2")
                     .arg(QString::fromUtf8(version.data(), static_cast<qsizetype>(version.size())),
                          QString::fromLatin1(qVersion())));
           },
       .icon = QStyle::SP_MessageBoxInformation}};
}

void MainWindow::ask_for_files() {
  const QString traces = QStringLiteral("*.json *.gz *.tar *.tgz *.sqlite"),
                snapshots = QStringLiteral("*.pickle *.pkl *.gz"),
                configurations = QStringLiteral("*.json *.yaml *.yml *.toml *.sh");
  const QStringList filters{
      tr("All that can be opened (%1 %2 %3)").arg(traces, snapshots, configurations),
      tr("Traces (%1)").arg(traces), tr("Memory snapshots (%1)").arg(snapshots),
      tr("Plans and configurations (%1)").arg(configurations), tr("All files (*)")};
  for (const QString& file : QFileDialog::getOpenFileNames(this, tr("Open files"), {},
                                                           filters.join(QStringLiteral(";;"))))
    open(file.toStdString());
}

void MainWindow::ask_for_comparison(const NewComparison& start) {
  auto* dialog = new NewComparisonDialog(start, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog] {
    NewComparison comparison = dialog->comparison();
    try {
      comparison.folder = make_new_folder(comparison.folder);
    } catch (const Error& error) {
      return tell(QString::fromUtf8(error.what()));
    }
    opening_->open(comparison.folder, [comparison](const OpenOptions& options) {
      return predict_comparison(comparison, options);
    });
  });
  dialog->open();
}

void MainWindow::ask_for_folder() {
  const QString folder = QFileDialog::getExistingDirectory(this, tr("Open a folder"));
  if (!folder.isEmpty()) open(folder.toStdString());
}

void MainWindow::export_current() {
  View& view = *docks_->current();
  const std::filesystem::path path = ask_export_path(view, this);
  if (path.empty()) return;
  export_to(view, path,
            [this](const QString& done) { statusBar()->showMessage(done, message_ms); });
}

void MainWindow::choose_among(const QString& group, const std::vector<QString>& names,
                              const std::function<void(std::size_t)>& chosen) {
  std::vector<Command> choices;
  for (std::size_t i = 0; i < names.size(); ++i)
    choices.push_back({.group = group, .text = names[i], .run = [chosen, i] { chosen(i); }});
  (new CommandPalette(std::move(choices), this))->show();
}

void MainWindow::choose_scenario(const QString& group,
                                 void (Workspace::*set)(const ScenarioPointer&)) {
  const std::vector<ScenarioPointer> all = workspace_.scenarios();
  std::vector<QString> names;
  for (const ScenarioPointer& scenario : all)
    names.push_back(QString::fromStdString(scenario->label));
  choose_among(group, names, [this, all, set](std::size_t i) { (workspace_.*set)(all[i]); });
}

void MainWindow::set_focus_mode(bool on) {
  if (on)
    docks_->show_only(docks_->current());
  else
    docks_->show_as_before();
  menuBar()->setVisible(!on);
  pair_bar_->setVisible(!on);
  if (on) statusBar()->showMessage(tr("F11 shows the other views again"), message_ms);
}

}  // namespace shardscope::gui
