#include "gui/table/column_table_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/base/view.h"
#include "gui/data/memory_bands.h"
#include "gui/data/row_filter.h"

namespace shardscope::gui {
namespace {

QString text(const std::string& from) { return QString::fromStdString(from); }

bool is_difference(const Column& column) { return column.look == CellLook::difference; }

}  // namespace

ColumnTableModel::ColumnTableModel(Tasks& tasks, QObject* parent)
    : QAbstractTableModel(parent), tasks_(tasks) {}

void ColumnTableModel::show(ColumnTablePointer table) {
  arranging_.request_stop();
  beginResetModel();
  table_ = std::move(table);
  rows_.clear();
  places_.clear();
  pinned_.reset();
  marks_.clear();
  endResetModel();
  arrange();
}

void ColumnTableModel::sort_by(const std::string& column_id, SortOrder order) {
  sorted_by_ = column_id;
  order_ = order;
  arrange();
}

void ColumnTableModel::sort(int column, Qt::SortOrder order) {
  if (column < 0 || column >= columnCount()) return sort_by("", SortOrder::ascending);
  const Column& by = table_->columns[static_cast<std::size_t>(column)];
  const SortOrder down = is_difference(by) ? SortOrder::by_magnitude : SortOrder::descending;
  sort_by(by.id, order == Qt::AscendingOrder ? SortOrder::ascending : down);
}

void ColumnTableModel::filter(const QString& filter) {
  if (filter_ == filter.toStdString()) return;
  filter_ = filter.toStdString();
  arrange();
}

void ColumnTableModel::pin(std::optional<std::uint32_t> row) {
  if (pinned_ == row) return;
  pinned_ = row;
  arrange();
}

void ColumnTableModel::mark(const std::vector<QString>& marks) {
  if (marks_ == marks) return;
  marks_ = marks;
  if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, 0));
}

QString ColumnTableModel::mark_of(int place) const {
  const std::uint32_t row = row_at(place);
  return row < marks_.size() ? marks_[row] : QString();
}

std::optional<int> ColumnTableModel::place_of(std::uint32_t row) const {
  if (row >= places_.size() || places_[row] == absent) return std::nullopt;
  return static_cast<int>(places_[row]);
}

ColumnTableModel::Arrangement ColumnTableModel::arrangement_of(
    const ColumnTable& table, const std::string& sorted_by, SortOrder order,
    const std::string& filter, std::optional<std::uint32_t> pinned, const std::stop_token& stop) {
  Arrangement result;
  result.rows = filtered_rows(table, parse_filter(filter, table), all_rows(table.rows), stop);
  if (const Column* column = table.find(sorted_by))
    result.rows = sorted_rows(*column, std::move(result.rows), order);
  const auto top =
      pinned ? std::find(result.rows.begin(), result.rows.end(), *pinned) : result.rows.end();
  if (top != result.rows.end()) std::rotate(result.rows.begin(), top, top + 1);
  result.places.assign(table.rows, absent);
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    result.places[result.rows[i]] = static_cast<std::uint32_t>(i);
  return result;
}

void ColumnTableModel::arrange() {
  arranging_.request_stop();
  if (table_->rows <= most_at_once)
    return take(arrangement_of(*table_, sorted_by_, order_, filter_, pinned_, {}));
  arranging_ = tasks_.run(
      this,
      [table = table_, by = sorted_by_, order = order_, filter = filter_, pinned = pinned_](
          std::stop_token stop) { return arrangement_of(*table, by, order, filter, pinned, stop); },
      [this](Arrangement arrangement) { take(std::move(arrangement)); });
}

void ColumnTableModel::take(Arrangement arrangement) {
  if (arrangement.rows.size() != rows_.size()) {
    beginResetModel();
    rows_ = std::move(arrangement.rows);
    places_ = std::move(arrangement.places);
    endResetModel();
    Q_EMIT arranged();
    return;
  }
  Q_EMIT layoutAboutToBeChanged({}, VerticalSortHint);
  const std::vector<std::uint32_t> before = std::exchange(rows_, std::move(arrangement.rows));
  places_ = std::move(arrangement.places);
  const QModelIndexList old = persistentIndexList();
  QModelIndexList moved;
  for (const QModelIndex& one : old) {
    const auto place = place_of(before[static_cast<std::size_t>(one.row())]);
    moved.append(place ? index(*place, one.column()) : QModelIndex());
  }
  changePersistentIndexList(old, moved);
  Q_EMIT layoutChanged({}, VerticalSortHint);
  Q_EMIT arranged();
}

QString ColumnTableModel::change_text(const QModelIndex& index) const {
  const Column& column = table_->columns[static_cast<std::size_t>(index.column())];
  const std::uint32_t row = row_at(index.row());
  if (!pinned_ || *pinned_ == row || column.is_text() || column.is_signed) return {};
  const double base = column.numbers[*pinned_], value = column.numbers[row];
  if (std::isnan(base) || std::isnan(value) || base == value) return {};
  // Of shares the difference in points: that of a share's share is read wrongly.
  const bool is_share = column.quantity == Quantity::share;
  if (!is_share && base == 0) return {};
  constexpr double many_times = 10;
  if (!is_share && value / base >= many_times)
    return QStringLiteral("\u00d7") + QString::number(value / base, 'f', 0);
  const double change = (is_share ? value - base : (value - base) / base) * 100;
  const int decimals = std::abs(change) < 10 ? 1 : 0;
  const QString number = QString::number(std::abs(change), 'f', decimals);
  if (number.toDouble() == 0) return {};
  return (change < 0 ? QStringLiteral("\u2212") : QStringLiteral("+")) + number +
         (is_share ? tr(" pt") : QStringLiteral("%"));
}

int ColumnTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int ColumnTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(table_->columns.size());
}

QString ColumnTableModel::text_of(std::size_t place, std::uint32_t row) const {
  const Column& column = table_->columns[place];
  if (column.is_text()) return text(table_->text(place, row));
  return text(number_text(column.numbers[row], column.unit, column.is_signed));
}

QString ColumnTableModel::tip_of(std::size_t place, std::uint32_t row) const {
  const Column& of = table_->columns[place];
  QString tip;
  for (std::size_t i = 0; i < table_->columns.size(); ++i) {
    const Column& column = table_->columns[i];
    const bool is_beside = !of.scale.empty() && column.scale == of.scale;
    if (i != place && !is_beside) continue;
    const QString value = text_of(i, row);
    if (value.isEmpty()) continue;
    tip += text(column.title) + QStringLiteral(": ") + value + QStringLiteral(" ") +
           text(column.unit.name);
    const bool is_rounded = column.quantity == Quantity::bytes && column.unit.size != 1;
    if (is_rounded) tip += tr(" (%L1 B)").arg(static_cast<qlonglong>(column.numbers[row]));
    tip += QStringLiteral("\n");
  }
  if (!of.shares.empty())
    for (const MemoryCategory category : memory_categories)
      if (const Bytes bytes = of.shares[row][category]; bytes > Bytes{})
        tip += text(std::string(band_name(category)) + ": " + rounded_text(bytes)) +
               QStringLiteral("\n");
  return tip + text(of.about);
}

QVariant ColumnTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const auto place = static_cast<std::size_t>(index.column());
  const Column& column = table_->columns[place];
  const std::uint32_t row = row_at(index.row());
  switch (role) {
    case Qt::DisplayRole:
      return text_of(place, row);
    case View::number_role:
      if (column.is_text() || std::isnan(column.numbers[row])) return {};
      return column.numbers[row] / column.unit.size;
    case Qt::TextAlignmentRole:
      return QVariant::fromValue<Qt::Alignment>(
          Qt::AlignVCenter | (column.is_text() ? Qt::AlignLeft : Qt::AlignRight));
    case Qt::ToolTipRole:
      return tip_of(place, row);
    case Qt::AccessibleTextRole:
      return text(column.title) + QStringLiteral(" ") + text_of(place, row) + QStringLiteral(" ") +
             text(column.unit.name);
    default:
      return {};
  }
}

QVariant ColumnTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
  const Column& column = table_->columns[static_cast<std::size_t>(section)];
  if (role == Qt::ToolTipRole)
    return text(column.about) + tr("\nFilter word: %1").arg(text(column.id));
  if (role != Qt::DisplayRole) return {};
  return column.unit.name.empty() ? text(column.title)
                                  : text(column.title + " (" + column.unit.name + ")");
}

}  // namespace shardscope::gui
