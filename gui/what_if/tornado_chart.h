// Bars of what the step time hangs on: each of the machine's figures a fifth lower and higher.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/data/what_if.h"

namespace shardscope::gui {

class TornadoChart : public QWidget {
  Q_OBJECT
 public:
  explicit TornadoChart(QWidget* parent = nullptr);

  void show(std::vector<Sensitivity> rows);
  const std::vector<Sensitivity>& rows() const { return rows_; }
  QSize minimumSizeHint() const override;
  QSize sizeHint() const override { return minimumSizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int row_height() const;

  std::vector<Sensitivity> rows_;
};

}  // namespace shardscope::gui
