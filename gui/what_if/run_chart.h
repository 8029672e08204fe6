// Loss and step time of a run that is under way.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/data/run_monitor.h"

namespace shardscope::gui {

class RunChart : public QWidget {
  Q_OBJECT
 public:
  explicit RunChart(QWidget* parent = nullptr);

  void show(std::vector<RunPoint> points);
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::vector<RunPoint> points_;
};

}  // namespace shardscope::gui
