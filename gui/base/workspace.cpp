#include "gui/base/workspace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "gui/data/scenario_labels.h"
#include "gui/data/side_times.h"

namespace shardscope::gui {

namespace {

using Renamed = std::map<ScenarioPointer, ScenarioPointer>;

/// Gives all of them labels that tell them apart. What views hold is never changed, so that a new
/// label makes a new scenario.
Renamed rename(std::vector<ScenarioPointer>& all) {
  const std::vector<std::string> labels = labels_apart(all);
  Renamed renamed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->label == labels[i]) continue;
    auto called = std::make_shared<Scenario>(*all[i]);
    called->label = labels[i];
    renamed[std::exchange(all[i], called)] = called;
  }
  return renamed;
}

ScenarioPointer now(const Renamed& renamed, const ScenarioPointer& before) {
  const auto same = renamed.find(before);
  return same == renamed.end() ? before : same->second;
}

}  // namespace

Workspace::Workspace(QObject* parent) : QObject(parent) {}

void Workspace::add(const ScenarioPointer& scenario) {
  const auto same = std::find_if(scenarios_.begin(), scenarios_.end(), [&](const auto& other) {
    return !scenario->path.empty() && other->path == scenario->path;
  });
  if (same == scenarios_.end()) {
    scenarios_.push_back(scenario);
  } else {
    const ScenarioPointer old = std::exchange(*same, scenario);
    if (a_ == old) a_ = scenario;
    if (b_ == old) b_ = scenario;
    if (selection_.scenario == old) select({});
  }
  if (!a_) a_ = scenario;
  const bool is_shown = a_ == scenario || b_ == scenario;
  const Renamed renamed = rename(scenarios_);
  const bool is_pair_renamed = renamed.contains(a_) || renamed.contains(b_);
  a_ = now(renamed, a_);
  b_ = now(renamed, b_);
  Q_EMIT scenarios_changed();
  if (is_shown) {
    forget_step();
    measure_axis();
  }
  if (is_shown || is_pair_renamed) Q_EMIT pair_changed();
  Selection selected = selection_;
  selected.scenario = now(renamed, selected.scenario);
  select(selected);
}

void Workspace::remove(const ScenarioPointer& scenario) {
  std::erase(scenarios_, scenario);
  if (selection_.scenario == scenario) select({});
  const bool was_shown = a_ == scenario || b_ == scenario;
  if (b_ == scenario) b_ = nullptr;
  if (a_ == scenario) a_ = std::exchange(b_, nullptr);
  if (!a_ && !scenarios_.empty()) a_ = scenarios_.front();
  Q_EMIT scenarios_changed();
  if (!was_shown) return;
  forget_step();
  measure_axis();
  Q_EMIT pair_changed();
}

void Workspace::set_a(const ScenarioPointer& scenario) {
  if (a_ == scenario) return;
  if (b_ == scenario) b_ = a_;
  a_ = scenario;
  forget_step();
  measure_axis();
  Q_EMIT pair_changed();
}

void Workspace::set_b(const ScenarioPointer& scenario) {
  if (b_ == scenario) return;
  if (a_ == scenario) return swap_a_and_b();
  b_ = scenario;
  forget_step();
  measure_axis();
  Q_EMIT pair_changed();
}

void Workspace::swap_a_and_b() {
  if (!b_) return;
  std::swap(a_, b_);
  measure_axis();
  Q_EMIT pair_changed();
}

void Workspace::set_ghost(const ScenarioPointer& scenario) {
  if (ghost_ == scenario) return;
  ghost_ = scenario;
  Q_EMIT ghost_changed();
}

void Workspace::select(const Selection& selection) {
  if (selection_ == selection) return;
  selection_ = selection;
  Q_EMIT selection_changed();
}

void Workspace::set_time_mode(TimeMode mode) {
  if (time_mode_ == mode) return;
  time_mode_ = mode;
  measure_axis();
}

void Workspace::set_step(StepChoice step) {
  measuring_.request_stop();
  if (step_ == step) return;
  measuring_ = tasks_.run(
      this,
      [a = a_, b = b_, step](std::stop_token stop) {
        for (const ScenarioPointer& scenario : {a, b})
          if (scenario && !stop.stop_requested()) measure_times(*scenario, step);
        return step;
      },
      [this](StepChoice measured) {
        step_ = measured;
        if (time_mode_ != TimeMode::time) return measure_axis();
        Q_EMIT axis_changed();
        std::optional<TimeRange> all;
        for (const ScenarioPointer& scenario : {a_, b_}) {
          if (!scenario) continue;
          const auto extent = step_extent(*scenario, time_mode_, a_.get(), step_);
          if (extent) all = all ? united(*all, *extent) : *extent;
        }
        if (all) show(step_ ? *all : whole_);
      });
}

TimeMap Workspace::time_map(const Scenario& scenario, SideKind side, std::size_t rank) const {
  return gui::time_map(scenario, side, rank, time_mode_, a_.get(), step_);
}

void Workspace::show(TimeRange range, Remember remember) {
  // Room on both sides, so that what lies at the ends can be brought to the middle.
  const TimeRange next = clamped(range, with_margin(whole_, 0.25));
  if (next == visible()) return;
  if (remember == Remember::yes)
    history_.remember(next);
  else
    history_.replace(next);
  Q_EMIT visible_changed();
}

void Workspace::undo_zoom() {
  if (!history_.can_undo()) return;
  history_.undo();
  Q_EMIT visible_changed();
}

void Workspace::redo_zoom() {
  if (!history_.can_redo()) return;
  history_.redo();
  Q_EMIT visible_changed();
}

void Workspace::set_cursors(const Cursors& cursors) {
  if (cursors_ == cursors) return;
  cursors_ = cursors;
  Q_EMIT cursors_changed();
}

/// What a step of other scenarios needs is not measured yet.
void Workspace::forget_step() {
  measuring_.request_stop();
  step_.reset();
}

void Workspace::set_notes(std::vector<TimeNote> notes) {
  if (notes_ == notes) return;
  notes_ = std::move(notes);
  Q_EMIT notes_changed();
}

std::optional<double> Workspace::axis_time_of(const TimeNote& note) const {
  for (const ScenarioPointer& scenario : {a_, b_}) {
    if (!scenario || scenario->path != note.scenario) continue;
    return time_map(*scenario, note.side, note.rank).axis_of(note.clock_ns);
  }
  return std::nullopt;
}

std::optional<TimeNote> Workspace::note_at(double axis_time, std::string text) const {
  if (!a_ || a_->path.empty()) return std::nullopt;
  for (const SideKind side : {SideKind::profiled, SideKind::predicted}) {
    const Side* of = a_->side(side);
    if (of == nullptr || !of->has_trace()) continue;
    return TimeNote{.scenario = a_->path,
                    .side = side,
                    .rank = 0,
                    .clock_ns = time_map(*a_, side, 0).clock_of(axis_time),
                    .text = std::move(text)};
  }
  return std::nullopt;
}

void Workspace::set_marks(std::vector<TimeRange> marks) {
  if (*marks_ == marks) return;
  marks_ = std::make_shared<const std::vector<TimeRange>>(std::move(marks));
  Q_EMIT marks_changed();
}

void Workspace::show_selection_in(const QString& view_id) { Q_EMIT view_wanted(view_id); }

void Workspace::measure_axis() {
  std::optional<TimeRange> all;
  for (const ScenarioPointer& scenario : {a_, b_}) {
    if (!scenario) continue;
    const auto extent = axis_extent(*scenario, time_mode_, a_.get(), step_);
    if (extent) all = all ? united(*all, *extent) : *extent;
  }
  whole_ = all.value_or(TimeRange{});
  history_ = ZoomHistory(whole_);
  cursors_ = {};
  Q_EMIT axis_changed();
  Q_EMIT visible_changed();
  Q_EMIT cursors_changed();
}

}  // namespace shardscope::gui
