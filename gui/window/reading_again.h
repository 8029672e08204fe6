// Reads what has changed on disk again: at once while its job runs, else when it is asked for.
#pragma once

#include <QObject>
#include <QString>
#include <filesystem>
#include <set>
#include <vector>

#include "gui/base/command.h"
#include "gui/base/workspace.h"
#include "gui/window/file_watch.h"

namespace shardscope::gui {

class Opening;

class ReadingAgain : public QObject {
  Q_OBJECT
 public:
  ReadingAgain(Workspace& workspace, Opening& opening, QObject* parent = nullptr);

  FileWatch& watch() { return watch_; }
  /// All that has changed.
  void read_again();
  bool has_changes() const { return !changed_.empty(); }

  std::vector<Command> commands();

 Q_SIGNALS:
  void told(const QString& message);  ///< one line

 private:
  void note_change(const ScenarioPointer& scenario, bool is_running);
  void note_gone(const ScenarioPointer& scenario);
  void lay_beside_b();

  Workspace& workspace_;
  Opening& opening_;
  FileWatch watch_;
  std::set<std::filesystem::path> changed_;
};

}  // namespace shardscope::gui
