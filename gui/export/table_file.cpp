#include "gui/export/table_file.h"

#include <QAbstractItemModel>
#include <QLocale>
#include <functional>

#include "gui/base/view.h"

namespace shardscope::gui {
namespace {

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

void add_csv_line(QString& text, int columns, const std::function<QString(int)>& cell) {
  for (int column = 0; column < columns; ++column) {
    if (column > 0) text += u',';
    text += csv_field(cell(column));
  }
  text += QStringLiteral("\r\n");
}

void add_markdown_line(QString& text, int columns, const std::function<QString(int)>& cell) {
  text += u'|';
  for (int column = 0; column < columns; ++column)
    text += u' ' + cell(column) + QStringLiteral(" |");
  text += u'\n';
}

QString whole(TableText table) {
  while (!table.at_end()) table.add_row();
  return table.text();
}

}  // namespace

TableText::TableText(const QAbstractItemModel& table, ExportFormat format)
    : table_(table), format_(format), columns_(table.columnCount()), row_(table.index(0, 0)) {
  add_header();
}

void TableText::add_header() {
  if (format_ == ExportFormat::csv)
    return add_csv_line(text_, columns_, [&](int column) { return header(table_, column); });
  add_markdown_line(text_, columns_,
                    [&](int column) { return markdown_cell(header(table_, column)); });
  add_markdown_line(text_, columns_, [&](int column) {
    return is_right(table_, column) ? QStringLiteral("--:") : QStringLiteral("---");
  });
}

void TableText::add_row() {
  if (format_ == ExportFormat::csv) {
    add_csv_line(text_, columns_,
                 [&](int column) { return value_at(row_.siblingAtColumn(column)); });
  } else {
    add_markdown_line(text_, columns_, [&](int column) {
      const QString indent = column == 0 ? QStringLiteral("&emsp;").repeated(depth_) : QString();
      return indent + markdown_cell(text_at(row_.siblingAtColumn(column)));
    });
  }
  step();
}

/// To the first child, else to the next row of the nearest parent that has one.
void TableText::step() {
  if (table_.rowCount(row_) > 0) {
    row_ = table_.index(0, 0, row_);
    ++depth_;
    return;
  }
  for (; row_.isValid(); row_ = row_.parent(), --depth_) {
    const QModelIndex parent = row_.parent();
    const int next = row_.row() + 1;
    if (next >= table_.rowCount(parent)) continue;
    row_ = table_.index(next, 0, parent);
    if (!parent.isValid()) top_row_ = next;
    return;
  }
}

double TableText::share() const {
  return at_end() ? 1 : static_cast<double>(top_row_) / table_.rowCount();
}

QString csv_of(const QAbstractItemModel& table) {
  return whole(TableText(table, ExportFormat::csv));
}

QString markdown_of(const QAbstractItemModel& table) {
  return whole(TableText(table, ExportFormat::markdown));
}

}  // namespace shardscope::gui
