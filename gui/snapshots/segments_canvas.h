// A snapshot's segments with their blocks: what is free between blocks that are in use.
#pragma once

#include <QWidget>
#include <cstdint>
#include <memory>
#include <optional>

#include "gui/data/snapshot_allocations.h"

class QPainter;

namespace shardscope::gui {

/// A row a segment, the largest first, as long as it has bytes. To be put into a scroll area.
class SegmentsCanvas : public QWidget {
  Q_OBJECT
 public:
  explicit SegmentsCanvas(QWidget* parent);

  void show_allocations(std::shared_ptr<const SnapshotAllocations> allocations);
  /// Index into MemorySnapshot::blocks of what is drawn there.
  std::optional<std::uint32_t> block_at(QPointF at) const;
  QRectF rectangle_of(std::size_t row, std::uint32_t block) const;
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void block_chosen(std::uint32_t block);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool event(QEvent* event) override;

 private:
  const SnapshotSegment& segment(std::size_t row) const;
  double row_height() const;
  void draw_row(QPainter& painter, std::size_t row) const;

  std::shared_ptr<const SnapshotAllocations> all_;
  std::optional<std::uint32_t> chosen_;
};

/// "1.00 MiB, free" or "1.00 MiB (1000 KiB as requested), activations". `block`: index into
/// MemorySnapshot::blocks.
QString block_text(const SnapshotAllocations& all, std::uint32_t block);

}  // namespace shardscope::gui
