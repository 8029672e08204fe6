// Command: something that can be done, from a menu, by a key, or found in the palette.
#pragma once

#include <QKeySequence>
#include <QList>
#include <QString>
#include <QStyle>
#include <functional>
#include <optional>

namespace shardscope::gui {

struct Command {
  QString group;  ///< "View", "Timeline": its menu, and its heading among the keys
  QString text;   ///< "Zoom in"
  QList<QKeySequence> keys = {};
  std::function<void()> run;
  std::function<bool()> is_enabled = {};            ///< null: always
  std::function<bool()> is_checked = {};            ///< null: it has no state
  std::optional<QStyle::StandardPixmap> icon = {};  ///< in its menu
};

}  // namespace shardscope::gui
