// A table of prepared cells that can be sorted.
#pragma once

#include <QAbstractTableModel>
#include <QStringList>
#include <QVariant>
#include <vector>

namespace shardscope::gui {

class CellsModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  struct Cell {
    QString text;
    QVariant number = {};   ///< of View::number_role; it is sorted by, and aligned right
    QString tool_tip = {};  ///< "": the text
  };
  using Row = std::vector<Cell>;

  explicit CellsModel(const QStringList& header, QObject* parent = nullptr);

  /// Every row has a cell for each column of the header.
  void show(std::vector<Row> rows);
  const Row& row(int index) const { return rows_[static_cast<std::size_t>(index)]; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

 private:
  QStringList header_;
  std::vector<Row> rows_;
};

/// Selected rows of a table or tree as lines of cells with tabs between them, the header first; all
/// rows of a table without a selection.
QString rows_as_tsv(const QAbstractItemModel& model, const QModelIndexList& selected);

}  // namespace shardscope::gui
