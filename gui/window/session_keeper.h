// Saves what a window shows as a session, and shows a session again.
#pragma once

#include <QObject>
#include <QString>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gui/base/command.h"
#include "gui/base/workspace.h"
#include "gui/window/session.h"

class QMainWindow;

namespace shardscope::gui {

class Opening;

class SessionKeeper : public QObject {
  Q_OBJECT
 public:
  struct Appearances {
    std::function<AppearanceChoice()> now;
    std::function<void(AppearanceChoice choice)> set;
  };
  SessionKeeper(Workspace& workspace, Opening& opening, QMainWindow& window,
                Appearances appearances);

  /// In the background; what it names is shown once all of it is open.
  void open(const std::filesystem::path& file);
  void save(const std::filesystem::path& file);
  /// The file that was opened or saved last; empty: none yet.
  const std::filesystem::path& file() const { return file_; }

  /// What the window shows now. Scenarios of What-if, which lie nowhere, are left out.
  Session session() const;

  std::vector<Command> commands();

 Q_SIGNALS:
  void told(const QString& message);  ///< one line: what of a session made no sense, or failed
  void saved(const std::filesystem::path& file);

 private:
  void start(const ReadSession& read);
  void show_when_open();
  void show(const Session& session);
  void show_times(const Session& session);
  void ask_where_to_save();
  void ask_what_to_open();
  QString proposed_name() const;

  Workspace& workspace_;
  Opening& opening_;
  QMainWindow& window_;
  Appearances appearances_;
  std::filesystem::path file_;
  std::vector<std::string> notes_;  ///< of the session that was opened; kept when it is saved
  std::optional<Session> wanted_;
};

}  // namespace shardscope::gui
