#include "gui/diagnostics/findings_model.h"

#include <string_view>

namespace shardscope::gui {
namespace {

QString text(std::string_view from) {
  return QString::fromUtf8(from.data(), static_cast<qsizetype>(from.size()));
}

}  // namespace

void FindingsModel::show(const std::vector<ScenarioPointer>& scenarios) {
  beginResetModel();
  rows_.clear();
  for (const ScenarioPointer& scenario : scenarios)
    for (const Finding& finding : scenario->findings)
      rows_.push_back({text(scenario->label), finding});
  endResetModel();
}

int FindingsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int FindingsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

QVariant FindingsModel::data(const QModelIndex& index, int role) const {
  if (role != Qt::DisplayRole && role != Qt::ToolTipRole) return {};
  const Row& row = rows_[static_cast<std::size_t>(index.row())];
  switch (index.column()) {
    case severity_column:
      return text(name_of(row.finding.severity));
    case scenario_column:
      return row.scenario;
    case where_column:
      return text(row.finding.where);
    case what_column:
      return text(row.finding.what);
    default:
      return {};
  }
}

QVariant FindingsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  switch (section) {
    case severity_column:
      return tr("Severity");
    case scenario_column:
      return tr("Scenario");
    case where_column:
      return tr("Where");
    case what_column:
      return tr("What");
    default:
      return {};
  }
}

}  // namespace shardscope::gui
