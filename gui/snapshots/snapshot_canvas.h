// A snapshot's blocks: addresses over time, each block from its allocation to its free.
#pragma once

#include <QPixmap>
#include <memory>
#include <optional>
#include <vector>

#include "gui/base/theme.h"
#include "gui/base/time_canvas.h"
#include "gui/data/snapshot_allocations.h"

namespace shardscope::gui {

/// Beyond the keys of all canvases: the wheel, + and - zoom into addresses, up and down move along
/// them, Home shows all; a double click shows a block with what is around it.
class SnapshotCanvas : public TimeCanvas {
  Q_OBJECT
 public:
  SnapshotCanvas(Workspace& workspace, QWidget* parent);

  void show_allocations(std::shared_ptr<const SnapshotAllocations> allocations);
  /// Index into its blocks.
  std::optional<std::size_t> chosen() const { return chosen_; }
  void choose(std::optional<std::size_t> block);
  /// Brings it into sight.
  void go_to(std::size_t block);
  /// Where the block is drawn; null where it is out of sight.
  QRectF rectangle_of(std::size_t block, QSize size) const;
  std::optional<std::size_t> block_at(QPointF at) const;

  /// Colours of the categories that blocks have, in one line.
  void draw_legend(QPainter& painter, QRectF where) const;

  std::vector<Command> commands() override;
  void draw(QPainter& painter, QSize size) override;

 Q_SIGNALS:
  void block_chosen();

 protected:
  double label_width() const override { return 84; }
  void click(QPointF at, Qt::KeyboardModifiers modifiers) override;
  bool event(QEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;

 private:
  /// What the picture below cursor and choice depends on.
  struct LayerOf {
    QSize size;
    double pixels = 0;
    TimeRange time;
    double low = 0, high = 0;
    const SnapshotAllocations* allocations = nullptr;
    Appearance appearance = Appearance::light;
    bool operator==(const LayerOf&) const = default;
  };

  double y_of(double bottom, int height) const;
  double bottom_at(double y, int height) const;
  void show_addresses(double low, double high);
  void zoom_addresses(double factor, double centre);
  void draw_layer(QPainter& painter, QSize size);
  void draw_blocks(QPainter& painter, QSize size);
  void draw_scale(QPainter& painter, QSize size) const;

  std::shared_ptr<const SnapshotAllocations> all_ = std::make_shared<const SnapshotAllocations>();
  BandSet held_;  ///< categories that blocks have
  std::optional<std::size_t> chosen_;
  double low_ = 0, high_ = 1;  ///< the addresses that are seen, as SnapshotAllocation::bottom
  QPixmap layer_;
  LayerOf layer_of_;
};

/// How long the block was there: "lived 1.20 ms", or at which end of the history it is open.
QString life_text(const SnapshotAllocation& block);

}  // namespace shardscope::gui
