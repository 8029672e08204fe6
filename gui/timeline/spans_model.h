// The spans of all lanes that meet a range, as rows: the table behind the timeline.
#pragma once

#include <QAbstractTableModel>
#include <memory>
#include <vector>

#include "gui/timeline/timeline_data.h"

namespace shardscope::gui {

/// Nothing is copied: a row is found by its number, so that millions of them cost nothing.
class SpansModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column {
    scenario_column,
    side_column,
    rank_column,
    track_column,
    name_column,
    class_column,
    phase_column,
    unit_column,
    begin_column,
    duration_column,
    bytes_column,
    column_count
  };

  using QAbstractTableModel::QAbstractTableModel;

  void show(std::shared_ptr<const TimelineData> data, TimeRange range);
  SpanPlace place_of_row(int row) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Part {
    SpanPlace first;         ///< of the lane in the range
    std::size_t before = 0;  ///< rows of the lanes before
  };
  QString text(const SpanPlace& place, int column) const;
  QVariant number(const SpanPlace& place, int column) const;
  const OperationFacts* facts_of(const SpanPlace& place) const;

  std::shared_ptr<const TimelineData> data_ = std::make_shared<const TimelineData>();
  std::vector<Part> parts_;
  std::size_t rows_ = 0;
};

}  // namespace shardscope::gui
