// Before and after of What-if as a table.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/data/what_if.h"

namespace shardscope::gui {

class FigureRowsModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit FigureRowsModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}

  void show(std::vector<FigureRow> rows);
  const std::vector<FigureRow>& rows() const { return rows_; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<FigureRow> rows_;
};

}  // namespace shardscope::gui
