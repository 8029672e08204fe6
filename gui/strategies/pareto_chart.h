// Memory against step time: every strategy as a point, predicted hollow, profiled solid.
#pragma once

#include <QPointF>
#include <QPolygonF>
#include <QRectF>
#include <QWidget>
#include <optional>
#include <vector>

#include "gui/data/strategy_rows.h"

class QPainter;

namespace shardscope::gui {

/// A click on a point, or Return on the one that the arrow keys went to, chooses its row.
class ParetoChart : public QWidget {
  Q_OBJECT
 public:
  explicit ParetoChart(QWidget* parent = nullptr);

  /// `marks`: "A", "B" and the star, by row.
  void show(std::vector<StrategyRow> rows, std::vector<QString> marks);
  void draw(QPainter& painter, QSize size) const;
  /// Where a row's point lies, the profiled one if there are two; none: it has none.
  std::optional<QPointF> place_of(std::size_t row) const;

  QSize sizeHint() const override { return {420, 300}; }
  QSize minimumSizeHint() const override { return {220, 140}; }

 Q_SIGNALS:
  void chosen(std::size_t row, Qt::KeyboardModifiers modifiers);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  /// From figures to pixels.
  struct Axes {
    QRectF plot;
    double time_begin = 0, time_end = 1;      ///< nanoseconds
    double memory_begin = 0, memory_end = 1;  ///< bytes
    QPointF at(double time, double memory) const;
    std::optional<QPointF> at(const SideFigures* figures) const;
  };
  Axes axes_for(QSize size) const;
  void draw_axes(QPainter& painter, const Axes& axes) const;
  void draw_capacity(QPainter& painter, const Axes& axes) const;
  QPolygonF front_line(const Axes& axes) const;
  void draw_front(QPainter& painter, const Axes& axes) const;
  void draw_points(QPainter& painter, const Axes& axes) const;
  void draw_labels(QPainter& painter, const Axes& axes) const;
  std::optional<std::size_t> row_at(QPointF at) const;
  /// Rows by their importance: marked ones, those on the front, others.
  std::vector<std::size_t> by_importance() const;
  QString tip_of(std::size_t row) const;

  std::vector<StrategyRow> rows_;
  std::vector<QString> marks_;
  std::vector<bool> front_;
  std::optional<std::size_t> current_;
};

}  // namespace shardscope::gui
