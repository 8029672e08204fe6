#include "gui/timeline/range_rows.h"

#include <QCoreApplication>
#include <array>

#include "gui/base/text.h"

namespace shardscope::gui {
namespace {

using Row = std::vector<TextCell>;

QString tr(const char* text) { return QCoreApplication::translate("TimelineView", text); }

TextCell time_cell(Duration time) {
  return {.text = text_of(rounded_text(time)), .number = static_cast<qlonglong>(time.ns)};
}

TextCell signed_cell(Duration time) {
  TextCell cell = time_cell(time);
  if (time.ns > 0) cell.text.prepend(QChar('+'));
  return cell;
}

TextCell milliseconds_cell(double ns) {
  return {.text = QString::number(ns / 1e6, 'f', 3), .number = ns / 1e6};
}

constexpr std::array parts{
    &Accounting::span,         &Accounting::compute, &Accounting::exposed_communication,
    &Accounting::exposed_copy, &Accounting::idle,    &Accounting::overlap};

Row side_row(const std::string& label, const QString& side, const Accounting& time) {
  Row row{{text_of(label)}, {side}};
  for (const auto part : parts) row.push_back(time_cell(time.*part));
  return row;
}

}  // namespace

std::vector<Row> identity_rows(const RangeFigures& figures) {
  std::vector<Row> rows;
  for (const RangeAccounting& rank : figures.ranks) {
    if (rank.predicted) rows.push_back(side_row(rank.label, tr("predicted"), *rank.predicted));
    if (rank.profiled) rows.push_back(side_row(rank.label, tr("profiled"), *rank.profiled));
    if (!rank.predicted || !rank.profiled) continue;
    Row row{{text_of(rank.label)}, {tr("pred. - prof.")}};
    for (const auto part : parts)
      row.push_back(signed_cell((*rank.predicted).*part - (*rank.profiled).*part));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> operation_rows(const RangeFigures& figures) {
  std::vector<Row> rows;
  for (const RangeOperation& operation : figures.operations) {
    const bool has_both = operation.predicted_count > 0 && operation.profiled_count > 0;
    const auto count = [](std::int64_t n) {
      return TextCell{.text = QString::number(n), .number = static_cast<qlonglong>(n)};
    };
    rows.push_back({{text_of(operation.name)},
                    {text_of(name_of(operation.span_class))},
                    operation.predicted_count > 0 ? time_cell(operation.predicted) : TextCell{},
                    operation.profiled_count > 0 ? time_cell(operation.profiled) : TextCell{},
                    has_both ? signed_cell(operation.predicted - operation.profiled) : TextCell{},
                    count(operation.predicted_count),
                    count(operation.profiled_count)});
  }
  return rows;
}

std::vector<Row> exposed_rows(const TimelineData& data,
                              const std::vector<ExposedStretch>& stretches) {
  std::vector<Row> rows;
  for (const ExposedStretch& stretch : stretches) {
    const TimelineRank& rank = *data.sources[stretch.source];
    const TimeRange range =
        data.axis_range(stretch.source, stretch.window.begin.ns, stretch.window.end.ns);
    const bool has_bytes = stretch.bytes.count > 0;
    rows.push_back({{text_of(stretch.name)},
                    {stretch.unit.empty() ? tr("(root)") : text_of(stretch.unit)},
                    milliseconds_cell(static_cast<double>(stretch.window.length().ns)),
                    milliseconds_cell(range.begin),
                    has_bytes ? TextCell{.text = text_of(rounded_text(stretch.bytes)),
                                         .number = static_cast<qlonglong>(stretch.bytes.count)}
                              : TextCell{},
                    {text_of(name_of(rank.side))},
                    {text_of(rank.scenario->label) + tr(", rank %1").arg(rank.trace->rank)}});
  }
  return rows;
}

}  // namespace shardscope::gui
