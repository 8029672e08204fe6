#include "gui/table/table_text.h"

#include <QStringList>
#include <algorithm>

namespace shardscope::gui {
namespace {

QString line(QStringList cells, TextForm form) {
  // What would be taken for the end of a cell.
  for (QString& cell : cells) {
    cell.replace(QLatin1Char('\t'), QLatin1Char(' ')).replace(QLatin1Char('\n'), QLatin1Char(' '));
    if (form == TextForm::markdown) cell.replace(QLatin1Char('|'), QStringLiteral("\\|"));
  }
  return form == TextForm::tab_separated
             ? cells.join(QLatin1Char('\t')) + QLatin1Char('\n')
             : QStringLiteral("| ") + cells.join(QStringLiteral(" | ")) + QStringLiteral(" |\n");
}

/// Markdown's line between header and rows, numbers to the right.
QString rule(const QAbstractItemModel& model, const std::vector<int>& columns) {
  QString text = QStringLiteral("|");
  for (const int column : columns) {
    const auto alignment =
        static_cast<Qt::Alignment>(model.index(0, column).data(Qt::TextAlignmentRole).toInt());
    text += alignment & Qt::AlignRight ? QStringLiteral("--:|") : QStringLiteral("---|");
  }
  return text + QLatin1Char('\n');
}

}  // namespace

QString table_text(const QAbstractItemModel& model, const std::vector<int>& rows,
                   const std::vector<int>& columns, TextForm form) {
  QStringList header;
  for (const int column : columns)
    header += model.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
  QString text = line(header, form);
  if (form == TextForm::markdown) text += rule(model, columns);
  for (std::size_t i = 0; i < std::min(rows.size(), most_copied_rows); ++i) {
    QStringList cells;
    for (const int column : columns)
      cells += model.index(rows[i], column).data(Qt::DisplayRole).toString();
    text += line(cells, form);
  }
  return text;
}

}  // namespace shardscope::gui
