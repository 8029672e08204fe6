// Asks for a model, a cluster and strategies, or for what a configuration file does not say.
#pragma once

#include <QDialog>
#include <vector>

#include "gui/data/new_comparison.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace shardscope::gui {

class NewComparisonDialog : public QDialog {
  Q_OBJECT
 public:
  explicit NewComparisonDialog(const NewComparison& start, QWidget* parent = nullptr);
  /// As it stands; its folder is named by the time and not made yet.
  NewComparison comparison() const;

 private:
  void add_model();
  void add_numbers();
  void add_strategies();
  void add_buttons();
  void say_what_is_missing();

  NewComparison start_;
  QLineEdit* model_ = nullptr;
  QComboBox* cluster_ = nullptr;
  QComboBox* precision_ = nullptr;
  QSpinBox* world_ = nullptr;
  QSpinBox* batch_ = nullptr;
  QSpinBox* seq_ = nullptr;
  std::vector<QCheckBox*> strategies_;  ///< as `offered_strategies`; empty: a file says it
  QLabel* missing_ = nullptr;
  QPushButton* predict_ = nullptr;
};

}  // namespace shardscope::gui
