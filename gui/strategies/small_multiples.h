// Every strategy's step in small, on one scale: its memory and how its time was spent.
#pragma once

#include <QWidget>
#include <memory>
#include <optional>
#include <vector>

#include "gui/data/strategy_curves.h"
#include "gui/data/strategy_rows.h"

class QPainter;

namespace shardscope::gui {

/// One strategy's picture.
struct Multiple {
  QString label;
  QString marks;                                        ///< "A", "B", the star
  std::shared_ptr<const std::vector<SideCurve>> sides;  ///< never null
  bool is_tried = false;                                ///< a What-if, which is dashed
  bool is_being_read = false;                           ///< its traces are still to come
};

/// Memory by category over time, with its axes: predicted is an outline over the profiled bands, or
/// over pale ones where nothing was profiled. Below, the ribbons of compute, overlapped, exposed
/// and idle, the predicted one above the profiled one. A click chooses the row.
class SmallMultiples : public QWidget {
  Q_OBJECT
 public:
  explicit SmallMultiples(QWidget* parent = nullptr);

  void show(std::vector<Multiple> multiples);
  /// One scale for all, or each its own, for strategies of very different size.
  void set_own_scales(bool are_own);
  bool has_own_scales() const { return has_own_scales_; }
  void mark(const std::vector<QString>& marks);
  /// Rows in the order in which they are shown, each once.
  void arrange(const std::vector<std::size_t>& rows);
  /// All that there are, in as many columns as fit; also for export.
  void draw(QPainter& painter, QSize size, QRect exposed) const;
  /// Where the picture of that row is.
  QRectF place_of(std::size_t row) const { return cell(row, size()); }

  QSize sizeHint() const override { return {600, height_for(600)}; }
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override { return height_for(width); }

 Q_SIGNALS:
  void chosen(std::size_t row, Qt::KeyboardModifiers modifiers);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  /// What a picture's edges stand for.
  struct Scale {
    TimeRange shown;
    double most_bytes = 1;
    void add(const Multiple& multiple);
  };

  int most_columns(int width) const;
  int columns_for(QSize page) const;
  int height_for(int width) const;
  const Scale& scale_of(const Multiple& multiple) const;
  QRectF cell(std::size_t row, QSize page) const;
  QRectF plot(const QRectF& cell) const;
  std::optional<std::size_t> row_at(QPointF at) const;
  void draw_legend(QPainter& painter) const;
  QString clocks_text() const;  ///< those of what is drawn
  void draw_axes(QPainter& painter, const QRectF& memory, const QRectF& all,
                 const Scale& scale) const;
  void draw_bands(QPainter& painter, const QRectF& room, const SideCurve& side, const Scale& scale,
                  bool is_pale) const;
  void draw_multiple(QPainter& painter, const QRectF& cell, const Multiple& multiple,
                     bool is_current) const;
  void draw_outline(QPainter& painter, const QRectF& room, const SideCurve& side,
                    const Scale& scale) const;
  void draw_peak(QPainter& painter, const QRectF& room, const SideCurve& side,
                 const Scale& scale) const;
  void draw_ribbon(QPainter& painter, const QRectF& room, const SideCurve& side,
                   const Scale& scale) const;
  QString tip_at(std::size_t row, QPointF at) const;

  std::vector<Multiple> multiples_;
  Scale scale_;
  BandSet held_;                   ///< bands that any of them ever has
  std::vector<Scale> own_scales_;  ///< of each multiple
  bool has_own_scales_ = false;
  std::vector<std::size_t> order_, places_;  ///< row at each place, place of each row
  std::size_t current_ = 0;                  ///< row
};

}  // namespace shardscope::gui
