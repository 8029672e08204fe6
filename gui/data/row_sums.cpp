#include "gui/data/row_sums.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/quantities.h"

namespace shardscope::gui {
namespace {

bool is_summed(const Column& column) {
  const bool is_amount =
      column.quantity == Quantity::duration || column.quantity == Quantity::bytes;
  // The sum of points in time says nothing.
  return is_amount && column.is_shown_at_first && !column.id.starts_with("start");
}

std::string amount_text(const Column& column, double amount) {
  const auto whole = std::llround(std::abs(amount));
  const std::string text = column.quantity == Quantity::bytes ? rounded_text(Bytes{whole})
                                                              : rounded_text(Duration{whole});
  if (whole == 0) return text;
  return (amount < 0 ? "-" : column.is_signed ? "+" : "") + text;
}

}  // namespace

std::string sums_text(const ColumnTable& table, const std::vector<std::uint32_t>& rows) {
  std::string text;
  for (const Column& column : table.columns) {
    if (!is_summed(column)) continue;
    double sum = 0;
    bool has_any = false;
    for (const std::uint32_t row : rows) {
      if (std::isnan(column.numbers[row])) continue;
      sum += column.numbers[row];
      has_any = true;
    }
    if (has_any)
      text += fmt::format("{}{} {}", text.empty() ? "" : "  \u00b7  ", column.title,
                          amount_text(column, sum));
  }
  return text;
}

}  // namespace shardscope::gui
