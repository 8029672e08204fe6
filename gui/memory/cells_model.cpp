#include "gui/memory/cells_model.h"

#include <algorithm>

#include "gui/base/view.h"

namespace shardscope::gui {

CellsModel::CellsModel(const QStringList& header, QObject* parent)
    : QAbstractTableModel(parent), header_(header) {}

void CellsModel::show(std::vector<Row> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int CellsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int CellsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(header_.size());
}

QVariant CellsModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const Cell& cell =
      rows_[static_cast<std::size_t>(index.row())][static_cast<std::size_t>(index.column())];
  switch (role) {
    case Qt::DisplayRole:
      return cell.text;
    case Qt::ToolTipRole:
      return cell.tool_tip.isEmpty() ? cell.text : cell.tool_tip;
    case Qt::TextAlignmentRole:
      return static_cast<int>(Qt::AlignVCenter |
                              (cell.number.isValid() ? Qt::AlignRight : Qt::AlignLeft));
    case View::number_role:
      return cell.number;
    default:
      return {};
  }
}

QVariant CellsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section < header_.size() ? header_[section] : QVariant();
}

void CellsModel::sort(int column, Qt::SortOrder order) {
  if (column < 0 || column >= header_.size()) return;
  const auto at = static_cast<std::size_t>(column);
  const auto is_less = [at](const Row& a, const Row& b) {
    if (a[at].number.isValid() && b[at].number.isValid())
      return a[at].number.toDouble() < b[at].number.toDouble();
    return a[at].text < b[at].text;
  };
  Q_EMIT layoutAboutToBeChanged();
  std::stable_sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) {
    return order == Qt::AscendingOrder ? is_less(a, b) : is_less(b, a);
  });
  Q_EMIT layoutChanged();
}

QString rows_as_tsv(const QAbstractItemModel& model, const QModelIndexList& selected) {
  QStringList lines, cells;
  for (int column = 0; column < model.columnCount(); ++column)
    cells << model.headerData(column, Qt::Horizontal).toString();
  lines << cells.join(QLatin1Char('\t'));
  QModelIndexList rows = selected;
  for (int row = 0; selected.isEmpty() && row < model.rowCount(); ++row)
    rows << model.index(row, 0);
  for (const QModelIndex& row : rows) {
    cells.clear();
    for (int column = 0; column < model.columnCount(row.parent()); ++column)
      cells << row.siblingAtColumn(column).data().toString();
    lines << cells.join(QLatin1Char('\t'));
  }
  return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

}  // namespace shardscope::gui
