// StepPicker: which step of the runs the axis shows.
#pragma once

#include <QComboBox>

#include "gui/base/workspace.h"

namespace shardscope::gui {

/// The step that stands for the run, then every step that a side of A or B has. The range follows
/// the choice.
class StepPicker : public QComboBox {
  Q_OBJECT
 public:
  StepPicker(Workspace& workspace, QWidget* parent);

 private:
  void fill();
  void mark_chosen();

  Workspace& workspace_;
};

}  // namespace shardscope::gui
