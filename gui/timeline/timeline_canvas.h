// The timeline's canvas: rows of lanes with their labels, what is selected in them, and the keys
// and mouse of a timeline.
#pragma once

#include <QImage>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gui/base/time_canvas.h"
#include "gui/timeline/flow_lines.h"
#include "gui/timeline/span_search.h"
#include "gui/timeline/timeline_data.h"
#include "gui/timeline/timeline_frame.h"
#include "gui/timeline/timeline_rows.h"

namespace shardscope::gui {

class TimelineCanvas : public TimeCanvas {
  Q_OBJECT
 public:
  TimelineCanvas(Workspace& workspace, QWidget* parent);

  void show_data(std::shared_ptr<const TimelineData> prepared);
  const TimelineData& data() const { return *data_; }
  const TimelineRows& rows() const { return rows_; }

  /// Search hits, which are marked; none of them is current.
  void show_hits(std::shared_ptr<const SearchHits> hits);
  void show_current_hit(const SearchHit& hit);

  /// Logical pixels by which the rows are scrolled up, and by which they can be at most.
  double scroll() const { return scroll_; }
  double scroll_end() const;
  void scroll_to(double scroll);
  /// The height that all rows need.
  double content_height() const;

  /// Selects the span, brings its row and time into sight.
  void go_to(const SpanPlace& place);
  /// Brings what is selected into sight, once it is found.
  void bring_selection_into_sight();
  const std::optional<SpanPlace>& selected() const { return selected_; }
  const std::vector<SpanPlace>& linked() const { return linked_; }
  std::optional<SpanPlace> place_at(QPointF at) const;
  /// Where the span is drawn now; null where its row is closed or out of sight.
  QRectF rectangle_of(const SpanPlace& place) const;

  /// Where the note's text stands now, its instant at the left edge; null: out of sight.
  QRectF rectangle_of(const TimeNote& note) const;
  /// Asks for the text of a note under the mouse, else of the selection, else in the middle.
  void write_note();

  /// Arrows of all launches and flows that end in sight, at most a few hundred.
  void show_flows(bool shown);
  bool shows_flows() const { return shows_flows_; }
  /// What of them is drawn now.
  std::vector<FlowLine> drawn_flows() const;

  void set_lane_height(double height);
  std::vector<Command> commands() override;
  void draw(QPainter& painter, QSize size) override;

 Q_SIGNALS:
  void rows_changed();
  void scrolled();
  void flows_shown(bool shown);
  void place_selected();

 protected:
  double label_width() const override { return 210; }
  void click(QPointF at, Qt::KeyboardModifiers modifiers) override;
  double snapped(double time, QPointF at) const override;
  bool event(QEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void lay_out();
  void fit_lane_height();
  void toggle(const std::string& key);
  void pin_row();
  const TimelineRow* row_under(QPointF at) const;
  const TimelineRow* row_of(const SpanPlace& place) const;
  double top_of(const TimelineRow& row) const;
  void select_place(const SpanPlace& place);
  void find_selection();
  void find_links();
  void find_flows();
  /// The row's span at that time of the axis, or the next one, or its last; none: it has no spans.
  std::optional<SpanPlace> span_at(const TimelineRow& row, double time) const;
  void select_first_in_sight();
  void step_across_lanes(int by);
  void step_along_lane(int by);
  void follow_link(int by);
  void bring_into_sight(const SpanPlace& place);
  void draw_rows(QPainter& painter, QSize size);
  void draw_labels(QPainter& painter, QSize size) const;
  void draw_row_label(QPainter& painter, const TimelineRow& row, double top) const;
  void draw_marks(QPainter& painter) const;
  QRectF anchor_of(const SpanPlace& place) const;
  QRectF anchor_on(const TimelineRow& row, const SpanPlace& place) const;
  void draw_links(QPainter& painter, const QRectF& own) const;
  QRectF flow_end(const SpanPlace& place) const;
  void draw_flows(QPainter& painter) const;
  void draw_found(QPainter& painter, QSize size) const;
  void draw_notes(QPainter& painter, QSize size) const;
  std::optional<std::size_t> note_at(QPointF at) const;
  void change_note(std::size_t note);
  void draw_empty(QPainter& painter, QSize size) const;
  bool is_pinned(const TimelineRow& row) const;

  std::shared_ptr<const TimelineData> data_ = std::make_shared<const TimelineData>();
  RowChoices choices_;
  bool height_is_chosen_ = false;
  TimelineRows rows_;
  double scroll_ = 0;
  std::optional<SpanPlace> selected_;
  std::vector<SpanPlace> linked_;
  std::stop_source linking_;
  bool is_selecting_ = false;
  bool shows_flows_ = false;
  std::vector<FlowLine> flows_;  ///< of all data, where they are shown
  std::stop_source flowing_;
  bool wants_sight_ = false;  ///< of what is being looked for
  std::shared_ptr<const SearchHits> hits_ = std::make_shared<const SearchHits>();
  std::optional<SearchHit> current_hit_;
  QImage frame_;
  FrameRequest frame_of_;  ///< what `frame_` was drawn for
  Appearance frame_appearance_ = Appearance::light;
};

}  // namespace shardscope::gui
