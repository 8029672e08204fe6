#include "traces/import/memory_timeline.h"

#include <algorithm>

#include "core/base/error.h"
#include "traces/held_sum.h"
#include "traces/import/number_rows.h"

namespace shardscope {
namespace {

constexpr std::size_t raw_columns = 4;
constexpr std::size_t max_columns = 64;
constexpr std::size_t max_times = std::size_t{1} << 24;
constexpr std::size_t max_rows = std::size_t{1} << 25;
constexpr std::array<std::string_view, timeline_categories> category_names{
    "parameter",  "optimizer_state", "input",           "temporary",
    "activation", "gradient",        "autograd_detail", "unknown"};
constexpr std::array<std::string_view, timeline_actions> action_names{
    "preexisting", "create", "increment_version", "destroy"};

/// Raw rows lie in two arrays, points in three, behind one row of times that lies in two: what it
/// is, only the row after it tells.
class TimelineReader {
 public:
  explicit TimelineReader(MemoryTimeline& to) : to_(to) {}

  void row(const NumberRow& row) {
    if (is_first_) {
      is_first_ = false;
      first_.assign(row.numbers.begin(), row.numbers.end());
      is_first_damaged_ = row.is_damaged || row.depth != 2;
      return;
    }
    if (!is_decided_) decide(row.depth > 2);
    if (is_points_) return point(row.numbers, row.is_damaged || row.depth != 3);
    change(row.numbers, row.is_damaged || row.depth != 2);
  }

  void finish() {
    if (!is_first_ && !is_decided_) decide(false);
    const auto without_bytes = static_cast<std::int64_t>(times_.size() - next_time_);
    if (without_bytes > 0) to_.report.skipped["times without bytes"] = without_bytes;
    to_.report.events_read += without_bytes;
  }

 private:
  void decide(bool is_points) {
    is_decided_ = true;
    is_points_ = is_points;
    if (!is_points) return change(first_, is_first_damaged_);
    times_ = std::move(first_);
    if (is_first_damaged_) to_.report.guessed.emplace_back("not all times are numbers");
  }

  void skip(const char* reason) { ++to_.report.skipped[reason]; }

  void change(std::span<const std::int64_t> numbers, bool is_damaged) {
    ++to_.report.events_read;
    if (to_.rows.count() >= max_rows) return skip("rows after the 33,554,432nd");
    if (is_damaged || numbers.size() != raw_columns) return skip("no row of four numbers");
    if (numbers[1] < 1 || numbers[1] > static_cast<std::int64_t>(timeline_actions))
      return skip("no known action");
    if (numbers[3] < 0 || numbers[3] >= static_cast<std::int64_t>(timeline_categories))
      return skip("no known category");
    to_.rows.time_ns.push_back(numbers[0]);
    to_.rows.action.push_back(static_cast<TimelineAction>(numbers[1] - 1));
    to_.rows.bytes.push_back(numbers[2]);
    to_.rows.category.push_back(static_cast<TimelineCategory>(numbers[3]));
    ++to_.report.events_kept;
  }

  void point(std::span<const std::int64_t> numbers, bool is_damaged) {
    ++to_.report.events_read;
    if (next_time_ >= times_.size()) return skip("bytes without a time");
    const std::int64_t time = times_[next_time_++];
    TimelinePoints& points = to_.points;
    if (points.columns == 0 && numbers.size() <= max_columns) points.columns = numbers.size();
    if (is_damaged || numbers.empty() || numbers.size() != points.columns)
      return skip("no row of numbers, one a category");
    points.times_us.push_back(time);
    for (const std::int64_t bytes : numbers) points.bytes.push_back(bytes);
    ++to_.report.events_kept;
  }

  MemoryTimeline& to_;
  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> times_;  ///< of points
  std::size_t next_time_ = 0;
  bool is_first_ = true, is_first_damaged_ = false;
  bool is_decided_ = false, is_points_ = false;
};

/// The highest sum so far, and what it was made of.
class PeakWatch {
 public:
  explicit PeakWatch(TimelineFigures& figures) : figures_(figures) {}

  void note(std::size_t at, std::int64_t time_ns, const std::array<Bytes, timeline_categories>& now,
            Bytes sum) {
    if (sum > figures_.peak) {
      figures_.peak = sum;
      figures_.peak_at = at;
      figures_.peak_ns = time_ns;
      figures_.at_peak = now;
    }
    figures_.final = sum;
  }

 private:
  TimelineFigures& figures_;
};

void note_time(std::int64_t time_ns, TimelineFigures& figures) {
  if (!figures.first_ns) figures.first_ns = time_ns;
  figures.times_going_back += figures.last_ns.has_value() && time_ns < *figures.last_ns;
  figures.last_ns = time_ns;
}

TimelineFigures rows_figures(const TimelineRows& rows) {
  TimelineFigures figures;
  PeakWatch watch(figures);
  Bytes sum;
  std::array<Bytes, timeline_categories>& now = figures.at_end;
  for (std::size_t i = 0; i < rows.count(); ++i) {
    const auto category = static_cast<std::size_t>(rows.category[i]);
    const Bytes change{rows.bytes[i]};
    sum = held_sum(sum, change);
    now[category] = held_sum(now[category], change);
    figures.maximum[category] = std::max(figures.maximum[category], now[category]);
    if (rows.time_ns[i] != -1) note_time(rows.time_ns[i], figures);
    watch.note(i, rows.time_ns[i], now, sum);
  }
  return figures;
}

std::int64_t held_ns(std::int64_t time_us) {
  std::int64_t ns = 0;
  return __builtin_mul_overflow(time_us, 1000, &ns) ? (time_us < 0 ? INT64_MIN : INT64_MAX) : ns;
}

TimelineFigures points_figures(const TimelinePoints& points) {
  TimelineFigures figures;
  PeakWatch watch(figures);
  for (std::size_t i = 0; i < points.count(); ++i) {
    Bytes sum;
    std::array<Bytes, timeline_categories>& now = figures.at_end;
    for (std::size_t column = 0; column < points.columns; ++column) {
      const Bytes bytes{points.bytes[i * points.columns + column]};
      sum = held_sum(sum, bytes);
      if (column == 0 || column > timeline_categories) continue;
      now[column - 1] = bytes;
      figures.maximum[column - 1] = std::max(figures.maximum[column - 1], bytes);
    }
    note_time(held_ns(points.times_us[i]), figures);
    watch.note(i, held_ns(points.times_us[i]), now, sum);
  }
  return figures;
}

}  // namespace

std::string_view name_of(TimelineCategory category) {
  return category_names[static_cast<std::size_t>(category)];
}

std::string_view name_of(TimelineAction action) {
  return action_names[static_cast<std::size_t>(action)];
}

MemoryTimeline read_memory_timeline(TextInput& input, const std::string& file) {
  MemoryTimeline timeline{.file = file};
  timeline.report.format = "memory_timeline";
  TimelineReader reader(timeline);
  const NumberRowsEnd end =
      for_each_number_row(input, max_times, [&](const NumberRow& row) { reader.row(row); });
  reader.finish();
  timeline.report.text_bytes = end.text_bytes;
  if (!end.problem.empty()) timeline.report.guessed.push_back(end.problem);
  if (timeline.report.events_kept > 0) return timeline;
  throw Error({.where = file,
               .what = "not a memory timeline: no row of [time, action, bytes, category], and no "
                       "points in time",
               .way_out = "give what export_memory_timeline wrote as .json or .raw.json"});
}

TimelineFigures timeline_figures(const MemoryTimeline& timeline) {
  return timeline.rows.count() > 0 ? rows_figures(timeline.rows) : points_figures(timeline.points);
}

}  // namespace shardscope
