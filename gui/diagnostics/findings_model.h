// What should be known of the scenarios that are open, as rows.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

class FindingsModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { severity_column, scenario_column, where_column, what_column, column_count };

  using QAbstractTableModel::QAbstractTableModel;

  void show(const std::vector<ScenarioPointer>& scenarios);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Row {
    QString scenario;
    Finding finding;
  };
  std::vector<Row> rows_;
};

}  // namespace shardscope::gui
