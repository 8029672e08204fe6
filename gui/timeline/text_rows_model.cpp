#include "gui/timeline/text_rows_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gui/base/view.h"
#include "gui/data/column_table.h"

namespace shardscope::gui {
namespace {

/// A name behind these that begins otherwise is shown whole.
constexpr std::size_t most_compared = 500;

}  // namespace

TextRowsModel::TextRowsModel(std::vector<QString> headings, QObject* parent)
    : QAbstractTableModel(parent), headings_(std::move(headings)) {}

void TextRowsModel::show(std::vector<std::vector<TextCell>> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  std::vector<std::string> names;
  for (std::size_t row = 0; row < std::min(rows_.size(), most_compared); ++row)
    if (!rows_[row].empty()) names.push_back(rows_[row].front().text.toStdString());
  common_ = QString::fromStdString(gui::common_modules(names));
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
