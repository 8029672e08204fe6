#include "gui/memory/memory_levels_model.h"

#include <algorithm>

#include "gui/base/text.h"
#include "gui/base/view.h"

namespace shardscope::gui {
namespace {

/// Of the side whose trace knows operations; by operation.
std::vector<const OperationFacts*> facts_of(const ScenarioCurves& curves) {
  std::vector<const OperationFacts*> facts;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const auto& curve = curves.side(kind);
    if (!curve || curve->source.kind != MemorySource::Kind::rank) continue;
    for (const OperationFacts& fact :
         curves.scenario->side(kind)->ranks[curve->source.index]->facts)
      facts.push_back(&fact);
    if (!facts.empty()) break;
  }
  std::sort(facts.begin(), facts.end(), [](const OperationFacts* a, const OperationFacts* b) {
    return a->operation < b->operation;
  });
  return facts;
}

}  // namespace

void MemoryLevelsModel::show(std::shared_ptr<const MemoryPicture> picture) {
  beginResetModel();
  picture_ = std::move(picture);
  rows_ = 0;
  bands_.clear();
  facts_.clear();
  if (picture_ && !picture_->empty()) {
    const auto& pairs = picture_->a->pairs.rows;
    // The end of both sides is no row.
    rows_ = pairs.size() - static_cast<std::size_t>(!pairs.empty());
    for (std::size_t band = 0; band < memory_band_count; ++band)
      if (picture_->held[band]) bands_.push_back(band);
    facts_ = facts_of(*picture_->a);
  }
  endResetModel();
}

int MemoryLevelsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_);
}

int MemoryLevelsModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : first_figure + figures_each * (1 + static_cast<int>(bands_.size()));
}

const MemoryLevel* MemoryLevelsModel::level(std::size_t row, SideKind side) const {
  const PairedLevels::Row& pair = picture_->a->pairs.rows[row];
  const std::uint32_t place = side == SideKind::predicted ? pair.predicted : pair.profiled;
  return place == PairedLevels::none ? nullptr : &picture_->a->side(side)->levels.levels[place];
}

const OperationFacts* MemoryLevelsModel::facts(std::size_t row) const {
  for (const SideKind side : {SideKind::profiled, SideKind::predicted}) {
    const MemoryLevel* at = level(row, side);
    if (at == nullptr || !at->operation) continue;
    const auto found = std::lower_bound(
        facts_.begin(), facts_.end(), at->operation,
        [](const OperationFacts* fact, OperationId id) { return fact->operation < id; });
    if (found != facts_.end() && (*found)->operation == at->operation) return *found;
  }
  return nullptr;
}

std::optional<Bytes> MemoryLevelsModel::figure(std::size_t row, int column) const {
  const int place = column - first_figure;
  const auto group = static_cast<std::size_t>(place / figures_each);
  const auto of = [&](SideKind side) -> std::optional<Bytes> {
    const MemoryLevel* at = level(row, side);
    if (at == nullptr) return std::nullopt;
    return group == 0 ? at->bytes.total() : at->bytes[bands_[group - 1]];
  };
  const int which = place % figures_each;
  if (which == 0) return of(SideKind::predicted);
  if (which == 1) return of(SideKind::profiled);
  const auto predicted = of(SideKind::predicted), profiled = of(SideKind::profiled);
  if (!predicted || !profiled) return std::nullopt;
  return *predicted - *profiled;
}

QVariant MemoryLevelsModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const auto row = static_cast<std::size_t>(index.row());
  if (role == Qt::TextAlignmentRole && index.column() != operation_column &&
      index.column() != unit_column)
    return static_cast<int>(Qt::AlignRight | Qt::AlignVCenter);
  if (role != Qt::DisplayRole && role != View::number_role) return {};
  if (index.column() == time_column) {
    const double us = picture_->a->pairs.rows[row].begin / 1000;
    return role == View::number_role ? QVariant(us) : QString::number(us, 'f', 3);
  }
  if (index.column() < first_figure) {
    const OperationFacts* fact = facts(row);
    if (fact == nullptr || role != Qt::DisplayRole) return {};
    return text_of(index.column() == operation_column ? fact->name : fact->unit);
  }
  const auto bytes = figure(row, index.column());
  if (!bytes) return {};
  return role == View::number_role ? QVariant(static_cast<qlonglong>(bytes->count))
                                   : QString::number(bytes->count);
}

QVariant MemoryLevelsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  if (section == time_column) return tr("time (us)");
  if (section == operation_column) return tr("operation");
  if (section == unit_column) return tr("unit");
  const int place = section - first_figure;
  const auto group = static_cast<std::size_t>(place / figures_each);
  if (group > bands_.size()) return {};
  const QString name = group == 0 ? tr("total") : text_of(band_name(bands_[group - 1]));
  const QStringList kinds{tr("predicted"), tr("profiled"), tr("predicted - profiled")};
  return tr("%1 %2 (B)").arg(name, kinds[place % figures_each]);
}

}  // namespace shardscope::gui
