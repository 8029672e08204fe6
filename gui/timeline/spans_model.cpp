#include "gui/timeline/spans_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "gui/base/text.h"
#include "gui/base/view.h"
#include "gui/timeline/range_figures.h"

namespace shardscope::gui {
void SpansModel::show(std::shared_ptr<const TimelineData> data, TimeRange range) {
  beginResetModel();
  data_ = std::move(data);
  parts_.clear();
  rows_ = 0;
  constexpr std::size_t most_rows = std::numeric_limits<int>::max();
  for (std::size_t source = 0; source < data_->sources.size(); ++source) {
    const TimeWindow window = window_of(*data_, source, range);
    const auto& tracks = data_->sources[source]->tracks;
    for (std::size_t track = 0; track < tracks.size(); ++track) {
      if (tracks[track].items == LaneItems::sections) continue;
      for (std::size_t lane = 0; lane < tracks[track].lanes.size(); ++lane) {
        const SpanLane& spans = tracks[track].lanes[lane];
        const std::size_t first = spans.first_ending_after(window.begin.ns);
        const std::size_t last = spans.first_beginning_from(window.end.ns, first);
        if (last <= first) continue;
        parts_.push_back({.first = {source, track, lane, first}, .before = rows_});
        rows_ = std::min(most_rows, rows_ + last - first);
      }
    }
  }
  endResetModel();
}

SpanPlace SpansModel::place_of_row(int row) const {
  const auto at = static_cast<std::size_t>(row);
  const auto next =
      std::upper_bound(parts_.begin(), parts_.end(), at,
                       [](std::size_t wanted, const Part& part) { return wanted < part.before; });
  const Part& part = *std::prev(next);
  SpanPlace place = part.first;
  place.index += at - part.before;
  return place;
}

int SpansModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_);
}

int SpansModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

const OperationFacts* SpansModel::facts_of(const SpanPlace& place) const {
  return data_->sources[place.source]->facts_of(operation_of(*data_, place));
}

QString SpansModel::text(const SpanPlace& place, int column) const {
  const TimelineRank& rank = *data_->sources[place.source];
  switch (column) {
    case scenario_column:
      return text_of(rank.scenario->label);
    case side_column:
      return text_of(name_of(rank.side));
    case rank_column:
      return QString::number(rank.trace->rank);
    case track_column:
      return text_of(rank.tracks[place.track].label);
    case name_column:
      return text_of(name_of(*data_, place));
    case class_column:
      return text_of(name_of(lane_of(*data_, place).colour(place.index)));
    case phase_column:
      if (const OperationFacts* facts = facts_of(place)) return text_of(name_of(facts->phase));
      return {};
    case unit_column:
      if (const OperationFacts* facts = facts_of(place))
        return facts->unit.empty() ? tr("(root)") : text_of(facts->unit);
      return {};
    default:
      return number(place, column).toString();
  }
}

QVariant SpansModel::number(const SpanPlace& place, int column) const {
  const SpanLane& lane = lane_of(*data_, place);
  switch (column) {
    case rank_column:
      return data_->sources[place.source]->trace->rank;
    case begin_column:
      return axis_range(*data_, place).begin / 1e3;
    case duration_column:
      return static_cast<double>(lane.end(place.index) - lane.begin(place.index)) / 1e3;
    case bytes_column:
      if (const OperationFacts* facts = facts_of(place); facts != nullptr && facts->bytes.count > 0)
        return static_cast<qlonglong>(facts->bytes.count);
      return {};
    default:
      return {};
  }
}

QVariant SpansModel::data(const QModelIndex& index, int role) const {
  const bool is_number = index.column() == rank_column || index.column() >= begin_column;
  if (role == Qt::TextAlignmentRole && is_number)
    return QVariant(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole && role != View::number_role) return {};
  const SpanPlace place = place_of_row(index.row());
  if (role == View::number_role) return number(place, index.column());
  return text(place, index.column());
}

QVariant SpansModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  const QString headings[] = {tr("Scenario"),   tr("Side"),          tr("Rank"),  tr("Track"),
                              tr("Name"),       tr("Class"),         tr("Phase"), tr("Unit"),
                              tr("Begin (us)"), tr("Duration (us)"), tr("Bytes")};
  return section < column_count ? headings[section] : QVariant();
}

}  // namespace shardscope::gui
