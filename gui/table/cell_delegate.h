// Draws the cells of a ColumnTableModel: predicted ones hollow, profiled ones solid, differences
// shaded, categories as bands.
#pragma once

#include <QStyledItemDelegate>

namespace shardscope::gui {

class ColumnTableModel;
struct Column;
struct Theme;

/// Bars are as long as the number is beside the largest of its scale. Of cells that differ from the
/// pinned row's by some share, that is written small.
class CellDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  CellDelegate(const ColumnTableModel& model, QObject* parent);

  void show_changes(bool are_shown) { shows_changes_ = are_shown; }
  bool shows_changes() const { return shows_changes_; }

  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  void draw_marks(QPainter& painter, QRectF cell, const QModelIndex& index,
                  const Theme& theme) const;
  void draw_change(QPainter& painter, const QModelIndex& index, const QStyleOptionViewItem& option,
                   const Theme& theme) const;

  const ColumnTableModel& model_;
  bool shows_changes_ = true;
};

}  // namespace shardscope::gui
