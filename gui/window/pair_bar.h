// Which scenario is shown (A), and which it is compared with (B).
#pragma once

#include <QToolBar>

#include "gui/base/workspace.h"

class QComboBox;

namespace shardscope::gui {

class PairBar : public QToolBar {
  Q_OBJECT
 public:
  PairBar(Workspace& workspace, QWidget* parent);

 private:
  QComboBox* add_chooser(const QString& letter, const QString& name);
  void fill();

  Workspace& workspace_;
  QComboBox* a_ = nullptr;
  QComboBox* b_ = nullptr;
};

}  // namespace shardscope::gui
