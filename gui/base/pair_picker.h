// PairPicker: whose figures a view shows: A's, B's or both beside one another, and of which rank.
#pragma once

#include <QWidget>
#include <cstddef>

#include "gui/base/workspace.h"

class QComboBox;
class QLabel;

namespace shardscope::gui {

/// Choosers that are there only where there is something to choose. `view` is the id of the view;
/// the choosers' names begin with it.
class PairPicker : public QWidget {
  Q_OBJECT
 public:
  PairPicker(const QString& view, Workspace& workspace, QWidget* parent);

  /// A or B; null: nothing is open.
  ScenarioPointer shown() const;
  /// B where both are shown beside one another, else null.
  ScenarioPointer other() const;
  bool is_pair() const { return other() != nullptr; }
  void choose_pair();  ///< without B nothing changes
  std::size_t rank() const;

 Q_SIGNALS:
  /// Something else is chosen, or A or B has changed.
  void changed();

 private:
  enum Choice { a_alone, b_alone, a_against_b };
  Choice choice() const;
  void fill();

  Workspace& workspace_;
  QLabel* of_;
  QComboBox* scenario_;
  QLabel* on_;
  QComboBox* rank_;
};

}  // namespace shardscope::gui
