// View: one of the window's panes.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/base/command.h"
#include "gui/base/workspace.h"

class QAbstractItemModel;
class QPainter;

namespace shardscope::gui {

class View : public QWidget {
  Q_OBJECT
 public:
  /// `id`: "memory", for --view, session files and tests; it is the object's name. `title` is also
  /// its accessible name.
  View(const QString& id, const QString& title, Workspace& workspace, QWidget* parent);

  const QString& title() const { return title_; }
  Workspace& workspace() const { return workspace_; }

  /// What the view shows, as rows: the table behind the chart, and what is written as CSV. Text in
  /// DisplayRole, numbers without unit in `number_role`, units in the header. Never null.
  virtual QAbstractItemModel* table() = 0;
  static constexpr int number_role = Qt::UserRole;

  /// What can be done here, with its keys, which count while the view or a child has the focus.
  virtual std::vector<Command> commands() { return {}; }

  /// What is under way and ends with the window, as a line for who closes it; "": nothing.
  virtual QString why_not_close() const { return {}; }

  /// The view as a picture of `size` logical pixels, legend with it; the page around it has title
  /// and caption. By default as on the screen; views with a canvas draw it at that size.
  virtual void draw_page(QPainter& painter, QSize size);

 protected:
  /// Runs the command that has the key, where no child took it.
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QString title_;
  Workspace& workspace_;
};

}  // namespace shardscope::gui
