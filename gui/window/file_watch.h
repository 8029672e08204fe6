// Looks now and then whether what is open has changed on disk.
#pragma once

#include <QObject>
#include <QTimer>
#include <filesystem>
#include <map>
#include <stop_token>
#include <vector>

#include "gui/base/tasks.h"
#include "gui/base/workspace.h"
#include "gui/data/file_stamps.h"

namespace shardscope::gui {

/// Asks the file system from a thread of its own, every few seconds, since a network's may take its
/// time and tells of no changes. A change is told once it is there twice in a row, so that a file
/// is not read while it grows.
class FileWatch : public QObject {
  Q_OBJECT
 public:
  explicit FileWatch(Workspace& workspace, QObject* parent = nullptr);

  /// From here on it looks by itself.
  void start();
  /// Looks now, unless it does; also when something is opened.
  void look();
  Tasks& tasks() { return tasks_; }

 Q_SIGNALS:
  /// `is_running`: by a job that still runs.
  void changed(const ScenarioPointer& scenario, bool is_running);
  /// What was read of it stays.
  void gone(const ScenarioPointer& scenario);

 private:
  struct Seen {
    std::vector<FileStamp> read;  ///< when it was opened, or last told
    std::vector<FileStamp> last;  ///< at the last look
  };
  struct Look {
    ScenarioPointer scenario;
    std::vector<FileStamp> stamps;
    bool is_running = false;
  };
  void compare(const std::vector<Look>& looks);

  Workspace& workspace_;
  Tasks tasks_;
  QTimer timer_;
  std::map<ScenarioPointer, Seen> seen_;
};

}  // namespace shardscope::gui
