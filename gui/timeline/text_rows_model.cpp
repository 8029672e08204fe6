#include "gui/timeline/text_rows_model.h"

#include <utility>

#include "gui/base/view.h"

namespace shardscope::gui {

TextRowsModel::TextRowsModel(std::vector<QString> headings, QObject* parent)
    : QAbstractTableModel(parent), headings_(std::move(headings)) {}

void TextRowsModel::show(std::vector<std::vector<TextCell>> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int TextRowsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int TextRowsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(headings_.size());
}

QVariant TextRowsModel::data(const QModelIndex& index, int role) const {
  const auto& row = rows_[static_cast<std::size_t>(index.row())];
  const auto column = static_cast<std::size_t>(index.column());
  if (column >= row.size()) return {};
  const TextCell& cell = row[column];
  switch (role) {
    case Qt::DisplayRole:
    case Qt::ToolTipRole:
      return cell.text;
    case View::number_role:
      return cell.number;
    case Qt::TextAlignmentRole:
      if (!cell.number.isNull()) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
      return {};
    default:
      return {};
  }
}

QVariant TextRowsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return headings_[static_cast<std::size_t>(section)];
}

}  // namespace shardscope::gui
