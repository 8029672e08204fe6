// Workspace: what is open, what is compared, and what all views share: one axis, one selection.
#pragma once

#include <QObject>
#include <QString>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gui/base/tasks.h"
#include "gui/data/scenario.h"
#include "gui/data/time_map.h"
#include "gui/data/time_note.h"
#include "gui/data/time_range.h"
#include "gui/data/trace_times.h"
#include "gui/data/zoom_history.h"

namespace shardscope::gui {

/// What was clicked. Views show as much of it as they know: a table its row, the timeline its span,
/// the memory view its buffers.
struct Selection {
  ScenarioPointer scenario;
  SideKind side = SideKind::profiled;
  std::size_t rank = 0;                ///< index into Side::ranks
  OperationId operation;               ///< none: no operation of a schedule
  std::optional<std::string> unit;     ///< "" is the root; none: of no unit
  std::optional<std::size_t> span;     ///< index into the rank's Trace::spans
  std::optional<std::uint32_t> event;  ///< index into the rank's ImportedTrace::events
  std::optional<TimeRange> time;       ///< where it lies on the axis
  bool operator==(const Selection&) const = default;
  bool empty() const { return *this == Selection{}; }
};

/// Marks on the axis, nanoseconds.
struct Cursors {
  std::optional<double> a, b;      ///< 1 and 2 on the screen: set by the user, to compare instants
  std::optional<double> hover;     ///< under the mouse, in whichever view
  std::optional<TimeRange> range;  ///< dragged
  bool operator==(const Cursors&) const = default;
};

class Workspace : public QObject {
  Q_OBJECT
 public:
  explicit Workspace(QObject* parent = nullptr);

  Tasks& tasks() { return tasks_; }

  const std::vector<ScenarioPointer>& scenarios() const { return scenarios_; }
  /// Appends, or takes the place of the one of the same path. The first one becomes A.
  void add(const ScenarioPointer& scenario);
  void remove(const ScenarioPointer& scenario);

  /// The scenario that views show, and the one that it is compared with; null: none.
  const ScenarioPointer& a() const { return a_; }
  const ScenarioPointer& b() const { return b_; }
  void set_a(const ScenarioPointer& scenario);  ///< where it is B, the two change places
  void set_b(const ScenarioPointer& scenario);  ///< null: no comparison
  void swap_a_and_b();
  /// What was predicted for settings that are being tried (What-if), drawn as an outline over the
  /// others; null: none.
  const ScenarioPointer& ghost() const { return ghost_; }
  void set_ghost(const ScenarioPointer& scenario);

  const Selection& selection() const { return selection_; }
  void select(const Selection& selection);

  TimeMode time_mode() const { return time_mode_; }
  void set_time_mode(TimeMode mode);
  /// The step that the axis begins with. What it needs is measured beside the UI thread first;
  /// `axis_changed` tells when it is there. In the mode `time` the visible range moves to it.
  StepChoice step() const { return step_; }
  void set_step(StepChoice step);
  /// How a side's clock lies on the axis, by the time mode. `rank` is an index into Side::ranks.
  TimeMap time_map(const Scenario& scenario, SideKind side, std::size_t rank) const;
  /// From the first to the last time that any shown side has.
  TimeRange whole() const { return whole_; }
  TimeRange visible() const { return history_.current(); }
  /// `remember`: a step that can be undone; else a frame of one movement, undone with it.
  enum class Remember : bool { no, yes };
  void show(TimeRange range, Remember remember = Remember::yes);
  void show_all() { show(whole_); }
  void undo_zoom();
  void redo_zoom();
  const ZoomHistory& zoom_history() const { return history_; }

  const Cursors& cursors() const { return cursors_; }
  void set_cursors(const Cursors& cursors);

  /// What the user wrote beside instants; kept in the session.
  const std::vector<TimeNote>& notes() const { return notes_; }
  void set_notes(std::vector<TimeNote> notes);
  /// Where the note lies on the axis; none: its scenario is neither A nor B.
  std::optional<double> axis_time_of(const TimeNote& note) const;
  /// A note at an instant of the axis, on the clock of A's first side with a trace; none without.
  std::optional<TimeNote> note_at(double axis_time, std::string text) const;

  /// Stretches that a query found, drawn over the timeline; never null.
  const std::shared_ptr<const std::vector<TimeRange>>& marks() const { return marks_; }
  void set_marks(std::vector<TimeRange> marks);
  /// Views do not know each other: one that wants the selection shown in another says which.
  void show_selection_in(const QString& view_id);

 Q_SIGNALS:
  void scenarios_changed();
  void pair_changed();  ///< A or B
  void ghost_changed();
  void selection_changed();
  void axis_changed();  ///< time mode or `whole`
  void visible_changed();
  void cursors_changed();
  void notes_changed();
  void marks_changed();
  void view_wanted(const QString& view_id);  ///< the selection is to be seen there

 private:
  void forget_step();
  void measure_axis();

  Tasks tasks_;
  std::vector<ScenarioPointer> scenarios_;
  ScenarioPointer a_, b_, ghost_;
  Selection selection_;
  TimeMode time_mode_ = TimeMode::step;
  StepChoice step_;
  std::stop_source measuring_;
  TimeRange whole_;
  ZoomHistory history_;
  Cursors cursors_;
  std::vector<TimeNote> notes_;
  std::shared_ptr<const std::vector<TimeRange>> marks_ =
      std::make_shared<const std::vector<TimeRange>>();
};

}  // namespace shardscope::gui
