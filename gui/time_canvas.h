// What all canvases over time share: the axis, its ticks, and the keys and mouse that people know
// from Perfetto.
#pragma once

#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "gui/command.h"
#include "gui/data/time_scale.h"
#include "gui/workspace.h"

class QPainter;

namespace shardscope::gui {

/// Shows the workspace's visible range over the pixels right of `label_width()`. W and S zoom at
/// the mouse, A and D pan; Ctrl+wheel zooms, Shift+wheel pans; dragging marks a range; the middle
/// button, or Shift with the left one, drags the axis; F shows the selection, then the range, then
/// all; Escape lets go of both.
class TimeCanvas : public QWidget {
  Q_OBJECT
 public:
  TimeCanvas(Workspace& workspace, QWidget* parent);

  Workspace& workspace() const { return workspace_; }
  TimeScale scale() const { return scale_for(width()); }
  /// Of a picture of that many logical pixels.
  TimeScale scale_for(int width) const;

  /// The keys above as commands; canvases add theirs.
  virtual std::vector<Command> commands();
  /// Everything that is on the screen, at the size given; also for export.
  virtual void draw(QPainter& painter, QSize size) = 0;

 protected:
  /// Pixels at the left that are not time.
  virtual double label_width() const { return 120; }
  /// A click without dragging.
  virtual void click(QPointF at, Qt::KeyboardModifiers modifiers);

  /// Ticks with their labels along the top edge, and grid lines down to `bottom`.
  void draw_axis(QPainter& painter, const TimeScale& scale, double top, double bottom) const;
  /// Hover line, A and B, the dragged range.
  void draw_cursors(QPainter& painter, const TimeScale& scale, double top, double bottom) const;

  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  enum class Drag { none, range, axis };

  void zoom(double factor, double x);
  void pan(double share);
  void fit();
  double zoom_centre() const;

  Workspace& workspace_;
  Drag drag_ = Drag::none;
  QPointF pressed_at_;
  TimeRange pressed_range_;
  std::optional<double> mouse_x_;
};

}  // namespace shardscope::gui
