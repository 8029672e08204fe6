// Parts of a table as text that other programs take.
#pragma once

#include <QAbstractItemModel>
#include <QString>
#include <vector>

namespace shardscope::gui {

enum class TextForm { tab_separated, markdown };

/// Header and the rows given, of the columns given, as they are shown. Rows beyond
/// `most_copied_rows` are left out.
QString table_text(const QAbstractItemModel& model, const std::vector<int>& rows,
                   const std::vector<int>& columns, TextForm form);

inline constexpr std::size_t most_copied_rows = 100'000;

}  // namespace shardscope::gui
