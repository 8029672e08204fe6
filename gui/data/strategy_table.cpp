#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/side_by_side.h"
#include "gui/data/strategy_rows.h"

namespace shardscope::gui {
namespace {

double number(std::optional<Bytes> bytes) {
  return bytes ? static_cast<double>(bytes->count) : no_number;
}
double number(Duration time) { return static_cast<double>(time.ns); }
double number(std::optional<double> value) { return value.value_or(no_number); }
double number_of_time(const SideFigures& figures, Duration time) {
  return figures.ran_out ? no_number : number(time);
}
double share(Duration part, Duration whole) {
  return whole.ns > 0 ? number(part) / number(whole) : no_number;
}

bool says_bytes(const std::optional<StepTraffic>& traffic) {
  return traffic && (traffic->bytes > Bytes{} || traffic->collectives == 0);
}

/// One figure of a side, and how its columns are called.
struct Figure {
  const char* id;
  const char* title;
  const char* about;
  Quantity quantity;
  bool has_error;  ///< a column of (predicted - profiled) / profiled
  bool is_shown_at_first;
  double (*of)(const SideFigures&);
};

constexpr Figure all_figures[] = {
    {"peak", "Peak", "Most that tensors use at once", Quantity::bytes, true, true,
     [](const SideFigures& f) { return number(f.peak); }},
    {"step", "Step time", "Of the step that stands for the run", Quantity::duration, true, true,
     [](const SideFigures& f) { return f.has_step() ? number(f.step) : no_number; }},
    {"exposed", "Exposed", "Communication during which nothing is computed", Quantity::duration,
     false, true,
     [](const SideFigures& f) { return number_of_time(f, f.time.exposed_communication); }},
    {"overlap", "Overlap", "Share of communication that runs beside compute", Quantity::share,
     false, true, [](const SideFigures& f) { return number(f.overlap_share()); }},
    {"idle", "Idle", "Share of the step in which the device does nothing", Quantity::share, false,
     true, [](const SideFigures& f) { return share(f.time.idle, f.time.span); }},
    {"compute", "Compute", "Time in which something is computed", Quantity::duration, false, false,
     [](const SideFigures& f) { return number_of_time(f, f.time.compute); }},
    {"communication", "Communication", "Time in which a collective runs", Quantity::duration, false,
     false, [](const SideFigures& f) { return number_of_time(f, f.time.communication); }},
    {"traffic", "Collective bytes", "Payload of a step's collectives", Quantity::bytes, false,
     false,
     [](const SideFigures& f) {
       return says_bytes(f.traffic) ? number(f.traffic->bytes) : no_number;
     }},
    {"collectives", "Collectives", "Number of a step's collectives", Quantity::count, false, false,
     [](const SideFigures& f) {
       return f.traffic ? static_cast<double>(f.traffic->collectives) : no_number;
     }},
    {"reserved", "Reserved", "Arena or segments held of the device in the shown step",
     Quantity::bytes, false, true, [](const SideFigures& f) { return number(f.reserved); }},
    {"outside", "Outside", "Memory of the process that no arena or allocator holds",
     Quantity::bytes, false, false, [](const SideFigures& f) { return number(f.outside); }},
    {"mfu", "MFU", "Flops of the model over what the device could do", Quantity::share, false, true,
     [](const SideFigures& f) { return number(f.mfu_share); }},
    {"tokens", "Tokens/s", "Of the whole job", Quantity::rate, false, true,
     [](const SideFigures& f) { return number(f.tokens_per_s); }},
};

using RowValue = std::function<double(const StrategyRow&)>;

Column column_of(Column head, const std::vector<StrategyRow>& rows, const RowValue& value) {
  for (const StrategyRow& row : rows) head.numbers.push_back(value(row));
  return head;
}

/// Columns of the categories are called as they are everywhere.
std::string_view short_name(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
      return "P";
    case MemoryCategory::gradients:
      return "G";
    case MemoryCategory::optimizer_states:
      return "OS";
    default:
      return name_of(category);
  }
}

/// Of a figure whose error is not shown, one side is: the predicted one where nothing was profiled.
bool is_shown(const Figure& figure, SideKind kind, const std::vector<StrategyRow>& rows) {
  if (!figure.is_shown_at_first || figure.has_error) return figure.is_shown_at_first;
  const bool is_profiled =
      std::ranges::any_of(rows, [](const StrategyRow& row) { return row.profiled.has_value(); });
  return (kind == SideKind::profiled) == is_profiled;
}

void add_figure(ColumnTable& table, const Figure& figure, const std::vector<StrategyRow>& rows) {
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    const bool is_predicted = kind == SideKind::predicted;
    table.columns.push_back(
        column_of({.id = std::string(figure.id) + "_" + std::string(name_of(kind)),
                   .title = std::string(figure.title) + ", " + std::string(name_of(kind)),
                   .about = figure.about,
                   .scale = figure.id,
                   .quantity = figure.quantity,
                   .look = is_predicted ? CellLook::predicted : CellLook::profiled,
                   .is_shown_at_first = is_shown(figure, kind, rows)},
                  rows, [&](const StrategyRow& row) {
                    const SideFigures* side = row.figures(kind);
                    return side == nullptr ? no_number : figure.of(*side);
                  }));
  }
  if (!figure.has_error) return;
  table.columns.push_back(
      column_of({.id = std::string(figure.id) + "_error",
                 .title = std::string(figure.title) + ", error",
                 .about = "(predicted - profiled) / profiled",
                 .quantity = Quantity::share,
                 .look = CellLook::difference,
                 .is_signed = true},
                rows, [&](const StrategyRow& row) {
                  if (!row.predicted || !row.profiled) return no_number;
                  if (row.predicted->ran_out || row.profiled->ran_out) return no_number;
                  return number(error_share(
                      SideBySide<double>{{figure.of(*row.predicted)}, {figure.of(*row.profiled)}}));
                }));
}

Column bands(const std::vector<StrategyRow>& rows) {
  Column column{.id = "categories",
                .title = "Peak by category",
                .about = "What is alive at the peak: P, G, OS, activations, ...",
                .scale = "peak",
                .quantity = Quantity::bytes};
  for (const StrategyRow& row : rows) {
    const SideFigures* figures = row.figures();
    column.shares.push_back(figures == nullptr ? CategoryBytes{} : figures->at_peak);
    column.numbers.push_back(figures == nullptr ? no_number : number(figures->at_peak.total()));
  }
  return column;
}

Column category(MemoryCategory of, const std::vector<StrategyRow>& rows) {
  return column_of({.id = "peak_" + std::string(name_of(of)),
                    .title = "Peak, " + std::string(short_name(of)),
                    .about = std::string(name_of(of)) + " that are alive at the peak",
                    .quantity = Quantity::bytes,
                    .is_shown_at_first = false},
                   rows, [&](const StrategyRow& row) {
                     const SideFigures* figures = row.figures();
                     return figures == nullptr ? no_number : number(figures->at_peak[of]);
                   });
}

}  // namespace

ColumnTable strategy_table(const std::vector<StrategyRow>& rows) {
  ColumnTable table{.columns = {}, .rows = rows.size()};
  std::vector<std::string> labels, fits;
  for (const StrategyRow& row : rows) {
    labels.push_back(row.label);
    const bool is_known = row.margin().has_value() || (row.device_memory && !row.fits);
    fits.push_back(!is_known ? "?" : row.fits ? "\u2713 fits" : "\u2717 too large");
  }
  Column name{.id = "strategy", .title = "Strategy", .about = "Scenario; the baseline has a star"};
  set_texts(name, labels);
  Column word{.id = "fits", .title = "Fits", .about = "Whether the device's memory is enough"};
  set_texts(word, fits);
  table.columns = {std::move(name), std::move(word)};
  table.columns.push_back(column_of(
      {.id = "margin",
       .title = "Margin",
       .about = "Device memory less what the largest step reserves, and what lies outside",
       .quantity = Quantity::bytes,
       .is_signed = true},
      rows, [](const StrategyRow& row) { return number(row.margin()); }));
  for (const Figure& figure : all_figures) {
    add_figure(table, figure, rows);
    if (std::string_view(figure.id) != "peak") continue;
    table.columns.push_back(bands(rows));
    for (const MemoryCategory of : memory_categories) table.columns.push_back(category(of, rows));
  }
  set_units(table);
  return table;
}

}  // namespace shardscope::gui
