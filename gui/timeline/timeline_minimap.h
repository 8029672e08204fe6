// The whole axis in a strip: where the view is, where search hits are.
#pragma once

#include <QImage>
#include <QWidget>
#include <memory>
#include <optional>
#include <vector>

#include "gui/base/workspace.h"
#include "gui/timeline/span_search.h"
#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

/// Dragging moves what is visible; a click brings a time to the middle; arrow keys pan.
class TimelineMinimap : public QWidget {
  Q_OBJECT
 public:
  TimelineMinimap(Workspace& workspace, QWidget* parent);

  void show_data(std::shared_ptr<const TimelineData> prepared);
  void show_hits(const SearchHits& found);
  QSize sizeHint() const override { return {200, 30}; }

 protected:
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  double x_of(double time) const;
  double time_at(double x) const;
  void move_to(double x);
  void draw_strip();

  Workspace& workspace_;
  std::shared_ptr<const TimelineData> data_ = std::make_shared<const TimelineData>();
  std::vector<double> hits_;
  QImage strip_;
  TimeRange strip_of_;
  TimeRange pressed_range_;
  double grip_ = 0;  ///< from the middle of what is visible to where it is held, in time
};

}  // namespace shardscope::gui
