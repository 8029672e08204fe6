// Asks for what a real run is started with.
#pragma once

#include <QDialog>

#include "gui/what_if/run_pane.h"

class QLineEdit;
class QSpinBox;

namespace shardscope::gui {

class RunDialog : public QDialog {
  Q_OBJECT
 public:
  explicit RunDialog(const RunOffer& offer, QWidget* parent = nullptr);
  RunOffer offer() const;

 private:
  RunOffer offer_;
  QSpinBox* steps_;
  QLineEdit* folder_;
};

}  // namespace shardscope::gui
