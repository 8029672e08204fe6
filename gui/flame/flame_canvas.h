// The flame graph's canvas: all runs, one above the other, on one scale.
#pragma once

#include <QWidget>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "gui/base/command.h"
#include "gui/base/theme.h"
#include "gui/data/flame_picture.h"

namespace shardscope::gui {

/// What was predicted is hollow, what was measured is filled, a What-if dashed. A click zooms in,
/// so that the node is as wide as the canvas; the one that is current is told by `told`.
class FlameCanvas : public QWidget {
  Q_OBJECT
 public:
  explicit FlameCanvas(QWidget* parent);

  /// Zoom and current node stay where the new picture has them.
  void show_picture(std::shared_ptr<const FlamePicture> picture);
  const FlamePicture& picture() const { return *picture_; }

  std::uint32_t zoomed() const { return zoomed_; }
  void zoom_to(std::uint32_t node);
  FlameScale scale() const { return scale_; }
  void set_scale(FlameScale scale);
  /// 0, the root: none.
  std::uint32_t current() const { return current_; }
  void choose(std::uint32_t node);
  /// Marks these, and fades the others.
  void show_matches(FlameMatches matches);
  void step_match(int by);

  std::optional<std::uint32_t> node_at(QPointF at) const;
  /// Where the node is drawn; null: it is not.
  QRectF rectangle_of(std::uint32_t node, std::size_t run) const;
  /// In one line: the path, and the figures of all runs.
  QString told() const { return line_of(current_); }
  QString line_of(std::uint32_t node) const;

  std::vector<Command> commands();
  /// At any size: levels for which there is no room are left out.
  void draw(QPainter& painter, QSize size);
  /// The colours that innermost nodes have, in one line.
  void draw_legend(QPainter& painter, QRectF where) const;

 Q_SIGNALS:
  void current_changed();
  void zoom_changed();
  void scale_changed(bool is_shared);

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  /// One run as it was laid out for a width.
  struct Panel {
    double top = 0, height = 0;
    std::uint32_t rows = 0;  ///< with its title; 0: the run is not there
    std::vector<FlameBox> boxes;
  };

  void lay_out();
  /// Rows are higher where there is room.
  void lay_out_for(QSize size);
  double least_row() const;
  QRectF rectangle_in(const Panel& panel, const FlameBox& box, int width) const;
  void draw_panel(QPainter& painter, std::size_t run, QSize size) const;
  void draw_box(QPainter& painter, const FlameBox& box, const QRectF& where, std::size_t run) const;
  QColor colour_of(const FlameNode& node, const Theme& theme) const;
  bool is_faded(std::uint32_t node) const;
  void step_sideways(int by);
  void copy(const QString& text) const;
  void hover(std::optional<std::uint32_t> node);

  std::shared_ptr<const FlamePicture> picture_ = std::make_shared<const FlamePicture>();
  std::uint32_t zoomed_ = 0, current_ = 0;
  FlameScale scale_ = FlameScale::shared;
  std::optional<std::uint32_t> hovered_;
  FlameMatches matches_;
  std::vector<bool> is_lit_;  ///< by node: it is a match or above one; empty: nothing is looked for
  std::array<Panel, flame_runs> panels_;
  double row_ = 0;     ///< height of a level
  double needed_ = 0;  ///< height of all, with rows as low as they can be
};

}  // namespace shardscope::gui
