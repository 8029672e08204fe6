// The sheet of keys: every command that has one, by group, from the commands themselves.
#pragma once

#include <QDialog>
#include <vector>

#include "gui/base/command.h"

namespace shardscope::gui {

class KeySheet : public QDialog {
  Q_OBJECT
 public:
  KeySheet(const std::vector<Command>& commands, QWidget* parent);
};

}  // namespace shardscope::gui
