// The window: views as docks that can lie one behind or one beside the other, over one workspace.
#pragma once

#include <QMainWindow>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gui/base/command.h"
#include "gui/base/view.h"
#include "gui/base/workspace.h"
#include "gui/data/new_comparison.h"
#include "gui/window/window_settings.h"

class QLabel;
class QProgressBar;
class QPushButton;
class QToolBar;

namespace shardscope::gui {

class MessageBanner;
class Opening;
class PairBar;
class ReadingAgain;
class SessionKeeper;
class ViewDocks;
class WelcomePage;

/// Of a new window where a screen has `room`, less the frame that a window manager adds.
QSize usual_size(QSize room);

class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  explicit MainWindow(QWidget* parent = nullptr);
  ~MainWindow() override;

  Workspace& workspace() { return workspace_; }
  const std::vector<View*>& views() const;
  View* view(const QString& id) const;  ///< null: there is none
  /// Brings it to the front.
  void show_view(View* view);
  /// Nothing but `view`, at this size, in a window that nobody sees; for pictures.
  void show_alone(View* view, QSize size);

  /// All of the window at this size, memory over timeline, which nobody sees either.
  void show_compared(QSize size);

  /// A run, a trace, a folder of either, or a session. In the background; what cannot be opened is
  /// told in the window and in `failed`.
  void open(const std::filesystem::path& path);
  /// Which scenarios to compare once everything is open, by label or path.
  void compare(const std::optional<std::string>& a, const std::optional<std::string>& b);

  /// Of the window and of all views, those of the current view first; each once.
  std::vector<Command> commands();

  /// From here on, as the user left it last, and remembered when it is closed.
  void restore();
  void set_appearance(AppearanceChoice choice);
  SessionKeeper& sessions() { return *sessions_; }

 Q_SIGNALS:
  void failed(const QString& message);  ///< one line

 protected:
  void closeEvent(QCloseEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  bool may_close();  ///< asks where something is under way
  void make_bars();
  void make_progress();
  void make_sessions();
  void make_menus();
  void show_progress();
  void show_scenarios();
  void choose_pair();
  void tell_opened(const std::filesystem::path& path,
                   const std::vector<ScenarioPointer>& scenarios);
  void tell(const QString& failure);

  // window_commands.cpp
  std::vector<Command> window_commands();
  std::vector<Command> file_commands();
  std::vector<Command> opening_commands();  ///< of files and folders
  std::vector<Command> compare_commands();
  std::vector<Command> view_commands();
  std::vector<Command> current_view_commands();
  std::vector<Command> appearance_commands();
  std::vector<Command> help_commands();
  void ask_for_files();
  void ask_for_comparison(const NewComparison& start);
  void ask_for_folder();
  void export_current();
  void choose_among(const QString& group, const std::vector<QString>& names,
                    const std::function<void(std::size_t)>& chosen);
  void choose_scenario(const QString& group, void (Workspace::*set)(const ScenarioPointer&));
  void set_focus_mode(bool on);

  Workspace workspace_;
  WindowSettings settings_;
  Opening* opening_ = nullptr;
  SessionKeeper* sessions_ = nullptr;
  ReadingAgain* again_ = nullptr;
  ViewDocks* docks_ = nullptr;
  WelcomePage* welcome_ = nullptr;
  MessageBanner* banner_ = nullptr;
  QToolBar* banner_bar_ = nullptr;
  PairBar* pair_bar_ = nullptr;
  QLabel* reading_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QPushButton* cancel_ = nullptr;
  AppearanceChoice appearance_ = AppearanceChoice::system;
  std::optional<std::string> wanted_a_, wanted_b_;
  bool remembers_ = false;
  bool shows_views_ = false;
};

}  // namespace shardscope::gui
