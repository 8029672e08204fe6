#include "gui/what_if/figure_rows_model.h"

#include <QApplication>
#include <QPalette>
#include <utility>

#include "gui/base/theme.h"
#include "gui/base/view.h"

namespace shardscope::gui {
namespace {

enum Section { figure, before, after, difference, unit, sections };

QString text_of(const FigureRow& row, int section) {
  switch (section) {
    case figure:
      return QString::fromStdString(row.name);
    case before:
      return QString::fromStdString(row.before);
    case after:
      return QString::fromStdString(row.after);
    case difference:
      // A second cue beside the colour.
      return QString::fromStdString(row.difference) +
             (row.better > 0   ? FigureRowsModel::tr("  better")
              : row.better < 0 ? FigureRowsModel::tr("  worse")
                               : QString());
    default:
      return QString::fromStdString(row.unit);
  }
}

QVariant number_of(const FigureRow& row, int section) {
  if (section == before) return row.before_number;
  if (section == after) return row.after_number;
  if (section == difference) return row.after_number - row.before_number;
  return {};
}

/// Blue is better and orange worse, as below and above elsewhere.
QVariant colour_of(const FigureRow& row) {
  if (row.better == 0) return {};
  const bool is_dark = system_appearance() == Appearance::dark;
  const Theme& theme = is_dark ? dark_theme() : light_theme();
  return row.better > 0 ? theme.less : (is_dark ? theme.more : theme.exposed);
}

}  // namespace

void FigureRowsModel::show(std::vector<FigureRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int FigureRowsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int FigureRowsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : sections;
}

QVariant FigureRowsModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const FigureRow& row = rows_[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return text_of(row, index.column());
    case View::number_role:
      return number_of(row, index.column());
    case Qt::TextAlignmentRole:
      return QVariant(index.column() == figure ? Qt::AlignLeft | Qt::AlignVCenter
                                               : Qt::AlignRight | Qt::AlignVCenter);
    case Qt::ForegroundRole:
      return index.column() == difference ? colour_of(row) : QVariant();
    default:
      return {};
  }
}

QVariant FigureRowsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  const QString names[] = {tr("Figure"), tr("Before"), tr("After"), tr("Difference"),
                           tr("Unit of the numbers")};
  return section >= 0 && section < sections ? QVariant(names[section]) : QVariant();
}

}  // namespace shardscope::gui
