// What all canvases over time share: the axis, its ticks, and the keys and mouse that people know
// from Perfetto.
#pragma once

#include <QWidget>
#include <functional>
#include <optional>
#include <vector>

#include "gui/base/command.h"
#include "gui/base/workspace.h"
#include "gui/data/time_scale.h"

class QPainter;

namespace shardscope::gui {

/// Shows the workspace's visible range over the pixels right of `label_width()`. W and S zoom at
/// the mouse, A and D pan; Ctrl+wheel zooms, Shift+wheel pans; dragging marks a range, whose edges
/// can be dragged again and snap to what the canvas shows, unless Alt is held; the middle button
/// drags a range that is zoomed to, Shift with the left one the axis; F shows the selection, then
/// the range, then all, Z the range; R marks the selection, Ctrl+A all; Escape lets go of both.
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
  /// The time that an edge put at `time` is meant to have, the mouse being at `at`.
  virtual double snapped(double time, QPointF at) const;
  /// Where the mouse is; none: outside.
  std::optional<QPointF> mouse() const { return mouse_; }

  /// Ticks with their labels along the top edge, and grid lines down to `bottom`.
  void draw_axis(QPainter& painter, const TimeScale& scale, double top, double bottom) const;
  /// Hover line, the cursors 1 and 2, the dragged range.
  void draw_cursors(QPainter& painter, const TimeScale& scale, double top, double bottom) const;

  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  enum class Drag { none, range, zoom, axis };

  /// The time under the mouse, snapped unless Alt is held.
  double edge_time(const QMouseEvent& event) const;
  /// The range's other edge, where `at` is near enough to one to drag it.
  std::optional<double> edge_opposite(QPointF at) const;
  void drag_range(const QMouseEvent& event, Cursors& cursors);
  void mark(TimeRange range);
  void zoom(double factor, double x);
  void pan(double share);
  void fit();
  double zoom_centre() const;

  Workspace& workspace_;
  Drag drag_ = Drag::none;
  QPointF pressed_at_;
  TimeRange pressed_range_;
  double anchor_ = 0;  ///< the edge of the dragged range that stays
  bool moved_ = false;
  std::optional<Cursors> before_zoom_;  ///< while a range is dragged only to be zoomed to
  std::optional<QPointF> mouse_;
};

}  // namespace shardscope::gui
