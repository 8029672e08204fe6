#include <algorithm>

#include "gui/data/unit_rows.h"

namespace shardscope::gui {
namespace {

RowTarget target_of_span(const RowTable& rows, std::uint32_t row) {
  const Span& span = rows.spans->spans[row];
  const TimeWindow window{.begin = span.start, .end = span.end()};
  RowTarget target;
  if (rows.side_of_spans == SideKind::predicted) {
    target.predicted_span = row;
    target.predicted = window;
  } else {
    target.profiled_span = row;
    target.profiled = window;
  }
  return target;
}

template <class Value>
std::optional<std::uint32_t> row_with(const RowTable& rows, std::optional<Value> RowTarget::*key,
                                      const std::optional<Value>& value) {
  const auto place = std::find_if(rows.targets.begin(), rows.targets.end(),
                                  [&](const RowTarget& one) { return one.*key == value; });
  if (!value || place == rows.targets.end()) return std::nullopt;
  return static_cast<std::uint32_t>(place - rows.targets.begin());
}

std::optional<std::uint32_t> row_with(const RowTable& rows, OperationId operation, bool is_of_b) {
  const auto of_b = std::partition_point(rows.targets.begin(), rows.targets.end(),
                                         [](const RowTarget& one) { return !one.is_of_b; });
  const auto end = is_of_b ? rows.targets.end() : of_b;
  const auto place =
      std::lower_bound(is_of_b ? of_b : rows.targets.begin(), end, operation,
                       [](const RowTarget& one, OperationId id) { return one.operation < id; });
  if (place == end || place->operation != operation) return std::nullopt;
  return static_cast<std::uint32_t>(place - rows.targets.begin());
}

}  // namespace

RowTarget target_of(const RowTable& rows, std::uint32_t row) {
  return rows.spans ? target_of_span(rows, row) : rows.targets[row];
}

std::optional<std::uint32_t> row_of(const RowTable& rows, const RowTarget& target) {
  const bool is_predicted = rows.side_of_spans == SideKind::predicted;
  if (rows.spans) {
    const auto& span = is_predicted ? target.predicted_span : target.profiled_span;
    return span && *span < rows.table.rows ? span : std::nullopt;
  }
  if (rows.targets.empty()) return std::nullopt;
  const bool are_units = !rows.targets.front().operation;
  if (are_units) return row_with(rows, &RowTarget::unit, target.unit);
  if (target.operation) return row_with(rows, target.operation, target.is_of_b);
  for (const auto key : {&RowTarget::event, &RowTarget::profiled_span, &RowTarget::predicted_span})
    if (const auto row = row_with(rows, key, target.*key)) return row;
  return std::nullopt;
}

}  // namespace shardscope::gui
