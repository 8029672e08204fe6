// Who asked for a block: its first useful frame as the name, then all frames, to be copied.
#pragma once

#include <QWidget>

class QLabel;
class QPlainTextEdit;
class QPushButton;

namespace shardscope::gui {

class StackPane : public QWidget {
  Q_OBJECT
 public:
  explicit StackPane(QWidget* parent);

  /// `facts`: one line. `frames`: one a line, innermost first; "": none were recorded.
  void show_stack(const QString& name, const QString& facts, const QString& frames);
  void show_nothing();
  QString name() const;
  QString frames() const;
  /// Name, facts and frames as text.
  void copy() const;

 private:
  QLabel* name_;
  QLabel* facts_;
  QPlainTextEdit* frames_;
  QPushButton* copy_;
};

}  // namespace shardscope::gui
