// The picture's numbers: a row for every time at which a side of A changes.
#pragma once

#include <QAbstractTableModel>
#include <memory>

#include "gui/data/memory_picture.h"

namespace shardscope::gui {

/// Time, operation and unit, then predicted, profiled and their difference of the total and of each
/// band that is ever held, in bytes.
class MemoryLevelsModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column { time_column, operation_column, unit_column, first_figure };
  static constexpr int figures_each = 3;  ///< predicted, profiled, difference

  using QAbstractTableModel::QAbstractTableModel;

  void show(std::shared_ptr<const MemoryPicture> picture);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  const MemoryLevel* level(std::size_t row, SideKind side) const;
  const OperationFacts* facts(std::size_t row) const;
  /// None where that side has no level.
  std::optional<Bytes> figure(std::size_t row, int column) const;

  std::shared_ptr<const MemoryPicture> picture_;
  std::size_t rows_ = 0;                      ///< of the pairs
  std::vector<std::size_t> bands_;            ///< that have columns
  std::vector<const OperationFacts*> facts_;  ///< by operation
};

}  // namespace shardscope::gui
