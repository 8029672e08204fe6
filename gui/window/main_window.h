// The window: views as docks that can lie one behind or one beside the other, over one workspace.
#pragma once

#include <QMainWindow>
#include <filesystem>
#include <vector>

#include "gui/command.h"
#include "gui/view.h"
#include "gui/workspace.h"

class QComboBox;
class QDockWidget;
class QLabel;
class QProgressBar;

namespace shardscope::gui {

class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  explicit MainWindow(QWidget* parent = nullptr);

  Workspace& workspace() { return workspace_; }
  const std::vector<View*>& views() const { return views_; }
  View* view(const QString& id) const;  ///< null: there is none
  /// Brings it to the front.
  void show_view(View* view);

  /// In the background; what cannot be opened is told in the status bar and in `failed`.
  void open(const std::filesystem::path& path);

  /// Of the window and of all views.
  std::vector<Command> commands();

 Q_SIGNALS:
  void failed(const QString& message);  ///< one line

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void make_docks();
  void make_pair_bar();
  void make_menus();
  void fill_pair_bar();
  std::vector<Command> window_commands();
  void tell(const QString& failure);

  Workspace workspace_;
  std::vector<View*> views_;
  std::vector<QDockWidget*> docks_;
  QComboBox* a_ = nullptr;
  QComboBox* b_ = nullptr;
  QProgressBar* progress_ = nullptr;
};

}  // namespace shardscope::gui
