// A table of a view as text: what is written as CSV and Markdown, and copied.
#pragma once

#include <QString>

class QAbstractItemModel;

namespace shardscope::gui {

/// RFC 4180: a header, then a line for each row, children behind their parents. Numbers as the
/// model has them (View::number_role), else the cell's text.
QString csv_of(const QAbstractItemModel& table);
/// As cells are shown; children are indented in their first cell.
QString markdown_of(const QAbstractItemModel& table);

}  // namespace shardscope::gui
