// The flame graph's canvas: both runs, one above the other, on one scale.
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

/// What was predicted is hollow, what was measured is filled. A click zooms in, so that the node is
/// as wide as the canvas; the one that is current is told by `told`.
class FlameCanvas : public QWidget {
  Q_OBJECT
 public:
  explicit FlameCanvas(QWidget* parent);

  /// Zoom and current node stay where the new picture has them.
  void show_picture(std::shared_ptr<const FlamePicture> picture);
  const FlamePicture& picture() const { return *picture_; }

  std::uint32_t zoomed() const { return zoomed_; }
  void zoom_to(std::uint32_t node);
  /// 0, the root: none.
  std::uint32_t current() const { return current_; }
  void choose(std::uint32_t node);
  /// Marks these, and fades the others.
  void show_matches(FlameMatches matches);
  void step_match(int by);

  std::optional<std::uint32_t> node_at(QPointF at) const;
  /// Where the node is drawn; null: it is not.
  QRectF rectangle_of(std::uint32_t node, std::size_t run) const;
  /// In one line: the path, and the figures of both runs.
  QString told() const { return line_of(current_); }
  QString line_of(std::uint32_t node) const;

  std::vector<Command> commands();
  /// At any size: levels for which there is no room are left out.
  void draw(QPainter& painter, QSize size);

 Q_SIGNALS:
  void current_changed();
  void zoom_changed();

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
    std::vector<FlameBox> boxes;
  };

  /// The boxes for its own width, and the height that they need.
  void lay_out();
  double lay_out_for(int width);  ///< the height
  double row_height() const;
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
  std::optional<std::uint32_t> hovered_;
  FlameMatches matches_;
  std::vector<bool> is_lit_;  ///< by node: it is a match or above one; empty: nothing is looked for
  std::array<Panel, 2> panels_;
};

}  // namespace shardscope::gui
