// A table of a view as text: what is written as CSV and Markdown, and copied.
#pragma once

#include <QModelIndex>
#include <QString>

#include "gui/export/export_format.h"

class QAbstractItemModel;

namespace shardscope::gui {

/// RFC 4180: a header, then a line for each row, children behind their parents. Numbers as the
/// model has them (View::number_role), else the cell's text.
QString csv_of(const QAbstractItemModel& table);
/// As cells are shown; children are indented in their first cell.
QString markdown_of(const QAbstractItemModel& table);

/// The same text a row at a time, for a thread that has more to do. The table must stay as it is
/// meanwhile.
class TableText {
 public:
  TableText(const QAbstractItemModel& table, ExportFormat format);  ///< csv or markdown

  bool at_end() const { return !row_.isValid(); }
  void add_row();
  double share() const;  ///< of the rows that have no parent, 0 to 1
  const QString& text() const { return text_; }

 private:
  void add_header();
  void step();

  const QAbstractItemModel& table_;
  ExportFormat format_;
  int columns_, depth_ = 0;
  QModelIndex row_;  ///< the next one's first cell
  int top_row_ = 0;
  QString text_;
};

}  // namespace shardscope::gui
