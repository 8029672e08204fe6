// Rows of the memory view's tables.
#pragma once

#include <QStringList>
#include <vector>

#include "gui/data/live_set.h"
#include "gui/data/memory_picture.h"
#include "gui/memory/cells_model.h"

namespace shardscope::gui {

/// Category, predicted, profiled, predicted less profiled, that as a share of profiled, bar; the
/// total first.
QStringList peak_header();
constexpr int peak_bar_column = 5;
std::vector<CellsModel::Row> peak_rows(const ScenarioCurves& curves);
/// "profiled 45 MiB at ..., predicted ..."
QString peak_text(const ScenarioCurves& curves);

/// " B's profiled side has nothing of rank 1."; "" where every side has what is shown.
QString unmatched_text(const MemoryPicture& picture);

/// Change, category, unit, tensor, size, share.
QStringList change_header();
std::vector<CellsModel::Row> change_rows(const LiveChange& change);
QString change_text(const LiveChange& change);

/// Category, unit, A, B, difference, bar.
QStringList unit_header();
constexpr int unit_bar_column = 5;
std::vector<CellsModel::Row> unit_rows(const std::vector<HeldByUnit>& held);

}  // namespace shardscope::gui
