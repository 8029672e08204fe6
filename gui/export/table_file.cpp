#include "gui/export/table_file.h"

#include <QAbstractItemModel>
#include <QLocale>
#include <functional>

#include "gui/view.h"

namespace shardscope::gui {
namespace {

using Row = std::function<void(const QModelIndex& first, int depth)>;

void for_each_row(const QAbstractItemModel& table, const QModelIndex& parent, int depth,
                  const Row& row) {
  for (int i = 0; i < table.rowCount(parent); ++i) {
    const QModelIndex first = table.index(i, 0, parent);
    row(first, depth);
    if (table.hasChildren(first)) for_each_row(table, first, depth + 1, row);
  }
}

QString header(const QAbstractItemModel& table, int column) {
  return table.headerData(column, Qt::Horizontal).toString();
}

QString text_at(const QModelIndex& cell) { return cell.data(Qt::DisplayRole).toString(); }

/// With all digits of a number; of no number, its text.
QString value_at(const QModelIndex& cell) {
  const QVariant number = cell.data(View::number_role);
  const auto type = static_cast<QMetaType::Type>(number.typeId());
  if (type == QMetaType::Int || type == QMetaType::LongLong || type == QMetaType::UInt ||
      type == QMetaType::ULongLong)
    return number.toString();
  if (type == QMetaType::Double && number.toDouble() == number.toDouble())
    return QString::number(number.toDouble(), 'g', QLocale::FloatingPointShortest);
  return text_at(cell);
}

QString csv_field(QString text) {
  const bool is_plain = !text.contains(u',') && !text.contains(u'"') && !text.contains(u'\n') &&
                        !text.contains(u'\r');
  return is_plain ? text : u'"' + text.replace(u'"', QStringLiteral("\"\"")) + u'"';
}

QString markdown_cell(QString text) {
  return text.replace(u'\\', QStringLiteral("\\\\"))
      .replace(u'|', QStringLiteral("\\|"))
      .replace(u'\n', u' ');
}

bool is_right(const QAbstractItemModel& table, int column) {
  const auto alignment = Qt::Alignment(table.index(0, column).data(Qt::TextAlignmentRole).toInt());
  return alignment.testFlag(Qt::AlignRight);
}

}  // namespace

QString csv_of(const QAbstractItemModel& table) {
  const int columns = table.columnCount();
  QString text;
  const auto line = [&](const std::function<QString(int)>& cell) {
    for (int column = 0; column < columns; ++column) {
      if (column > 0) text += u',';
      text += csv_field(cell(column));
    }
    text += QStringLiteral("\r\n");
  };
  line([&](int column) { return header(table, column); });
  for_each_row(table, {}, 0, [&](const QModelIndex& first, int) {
    line([&](int column) { return value_at(first.siblingAtColumn(column)); });
  });
  return text;
}

QString markdown_of(const QAbstractItemModel& table) {
  const int columns = table.columnCount();
  QString text;
  const auto line = [&](const std::function<QString(int)>& cell) {
    text += u'|';
    for (int column = 0; column < columns; ++column)
      text += u' ' + cell(column) + QStringLiteral(" |");
    text += u'\n';
  };
  line([&](int column) { return markdown_cell(header(table, column)); });
  line([&](int column) {
    return is_right(table, column) ? QStringLiteral("--:") : QStringLiteral("---");
  });
  for_each_row(table, {}, 0, [&](const QModelIndex& first, int depth) {
    line([&](int column) {
      const QString indent = column == 0 ? QStringLiteral("&emsp;").repeated(depth) : QString();
      return indent + markdown_cell(text_at(first.siblingAtColumn(column)));
    });
  });
  return text;
}

}  // namespace shardscope::gui
