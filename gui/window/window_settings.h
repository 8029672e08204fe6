// What the window remembers from one start to the next, in the user's settings.
#pragma once

#include <QByteArray>
#include <QSettings>
#include <QStringList>
#include <vector>

#include "gui/data/appearance_choice.h"

namespace shardscope::gui {

class WindowSettings {
 public:
  WindowSettings();

  AppearanceChoice appearance() const;
  void set_appearance(AppearanceChoice choice);

  /// The last opened first.
  QStringList recent() const;
  void add_recent(const QString& path);

  QByteArray geometry() const;
  /// Of docks and bars, as QMainWindow::saveState made it of a window with these views.
  QByteArray layout(const QStringList& views) const;
  void set_window(const QByteArray& geometry, const QByteArray& layout, const QStringList& views);

 private:
  QSettings settings_;
};

}  // namespace shardscope::gui
