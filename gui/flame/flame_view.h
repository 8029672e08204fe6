// Flame graph: where a step's time goes, and memory at the peak, from the outermost module to the
// operation, predicted over profiled.
#pragma once

#include <memory>
#include <stop_token>

#include "gui/base/view.h"
#include "gui/data/flame_picture.h"

class QCheckBox;
class QLabel;
class QLineEdit;
class QScrollArea;
class QTabBar;

namespace shardscope::gui {

class ColumnTableModel;
class FlameCanvas;
class PairPicker;

/// Prepared beside the UI thread, once it is in sight.
class FlameView : public View {
  Q_OBJECT
 public:
  explicit FlameView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;
  void draw_page(QPainter& painter, QSize size) override;

  void show_kind(FlameOf of);
  void search(const QString& text);
  /// A beside B; without B nothing changes.
  void show_pair();
  FlameCanvas& canvas() const { return *canvas_; }
  QString told() const;   ///< of the current node
  QString found() const;  ///< what the search came to

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* make_bar();
  void read();
  void take(FlamePicture picture);
  void find();
  void bring_into_sight();

  QTabBar* kinds_;
  PairPicker* picker_;
  QLineEdit* search_;
  QLabel* found_;
  QCheckBox* one_scale_;
  QLabel* told_;
  QScrollArea* scroll_;
  FlameCanvas* canvas_;
  QWidget* legend_;
  ColumnTableModel* model_;
  std::stop_source reading_;
  bool is_stale_ = true;  ///< the picture is not of what is chosen
};

}  // namespace shardscope::gui
