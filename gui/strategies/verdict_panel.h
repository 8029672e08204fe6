// The sentence that says what two strategies come to, and the figures that it rests on.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/data/verdict.h"

class QLabel;
class QToolButton;

namespace shardscope::gui {

class VerdictPanel : public QWidget {
  Q_OBJECT
 public:
  explicit VerdictPanel(QWidget* parent = nullptr);

  /// The first one is the headline with its reasons, the others' sentences follow; of none, `hint`
  /// stands there.
  void show(const std::vector<Verdict>& verdicts, const QString& hint);
  QString sentence() const;
  QString reasons() const;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void keep_height();

  QLabel* sentence_;
  QLabel* reasons_;
  QToolButton* why_;
};

}  // namespace shardscope::gui
