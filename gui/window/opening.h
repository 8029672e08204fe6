// Files that are being opened: how far each is, and how to stop them.
#pragma once

#include <QObject>
#include <QString>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "gui/base/workspace.h"
#include "gui/data/open_scenarios.h"

namespace shardscope::gui {

class Opening : public QObject {
  Q_OBJECT
 public:
  explicit Opening(Workspace& workspace, QObject* parent = nullptr);

  using Read = std::function<std::vector<ScenarioPointer>(const OpenOptions&)>;
  /// In the background; what it holds is added to the workspace.
  void open(const std::filesystem::path& path);
  /// The same of what `read` gives, which lies in `path` from then on.
  void open(const std::filesystem::path& path, const Read& read);
  void cancel();

  bool idle() const { return files_.empty(); }
  double share() const;  ///< of all files together, 0 to 1
  QString what() const;  ///< that is being read

 Q_SIGNALS:
  void progressed();
  /// What the path holds. It comes after `opened`, which withdraws earlier messages of the path.
  void was_read(const std::filesystem::path& path, const std::vector<ScenarioPointer>& scenarios);
  void opened(const std::filesystem::path& path);
  void failed(const QString& message);  ///< one line

 private:
  struct File {
    double share = 0;
    QString what;
    std::stop_source stop = {};
    std::function<void(const File&)> deliver = {};  ///< what was read, once it is
    std::vector<ScenarioPointer> figures = {};      ///< shown until it is
    std::vector<ScenarioPointer> replaced = {};     ///< what was open in their place
  };
  using FilePointer = std::shared_ptr<File>;
  void show_progress(File& file, double share, const QString& what);
  void show_figures(const FilePointer& file, const std::vector<ScenarioPointer>& figures);
  /// Figures that nothing follows, none of the paths of `read`: what was open in their place is
  /// there again.
  void withdraw_figures(const File& file, const std::vector<ScenarioPointer>& read);
  /// What is read, in the order in which it was asked for: which file is read faster than which
  /// does not change what views show.
  void deliver_in_order();

  Workspace& workspace_;
  std::vector<FilePointer> files_;  ///< in the order asked for, until they are delivered
};

}  // namespace shardscope::gui
