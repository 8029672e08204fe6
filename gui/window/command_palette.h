// The command palette: everything that can be done, found by a few letters of its name.
#pragma once

#include <QDialog>
#include <vector>

#include "gui/base/command.h"

class QLineEdit;
class QListWidget;

namespace shardscope::gui {

/// Enter, or a click, runs the chosen command once the palette is closed.
class CommandPalette : public QDialog {
  Q_OBJECT
 public:
  CommandPalette(std::vector<Command> commands, QWidget* parent);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void fill(const QString& typed);
  void run_chosen();

  std::vector<Command> commands_;
  QLineEdit* typed_ = nullptr;
  QListWidget* list_ = nullptr;
};

}  // namespace shardscope::gui
