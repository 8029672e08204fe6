// Loss and step time of a run that is under way, over what was predicted of it.
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "gui/data/run_monitor.h"

namespace shardscope::gui {

class RunChart : public QWidget {
  Q_OBJECT
 public:
  explicit RunChart(QWidget* parent = nullptr);

  /// `predicted`: of a step, drawn as a line; none: not known.
  void show(std::vector<RunPoint> points, std::optional<Duration> predicted);
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::vector<RunPoint> points_;
  std::optional<Duration> predicted_;
};

}  // namespace shardscope::gui
