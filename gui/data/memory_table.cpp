#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gui/data/peak_set.h"
#include "gui/data/unit_rows.h"

namespace shardscope::gui {
namespace {

/// What the columns of two sides, a and b, are called. The difference is a - b, or b - a where
/// `is_b_less_a`.
struct Heads {
  const char *id_a, *id_b;
  std::string title_a, title_b;
  CellLook look_a, look_b;
  const char *difference, *about;
  bool is_b_less_a = false;
};

std::string unit_name(const HeldByUnit& held) {
  if (!held.is_listed) return "(not listed by name)";
  return held.unit.empty() ? "(root)" : held.unit;
}

RowTable table_of(const std::vector<HeldByUnit>& held, const Heads& heads) {
  RowTable result{.table = {.columns = {}, .rows = held.size()}};
  if (held.empty()) result.problem = "No memory over time is known";
  std::vector<std::string> units, categories;
  for (const HeldByUnit& row : held) {
    units.push_back(unit_name(row));
    categories.emplace_back(band_name(row.band));
    RowTarget target;
    if (row.is_listed) target.unit = row.unit;
    result.targets.push_back(std::move(target));
  }
  Column unit{.id = "unit", .title = "Unit", .about = "Whose tensors they are"};
  Column category{.id = "category", .title = "Category", .about = "parameters, gradients, ..."};
  set_texts(unit, units);
  set_texts(category, categories);
  const auto numbers = [&](std::string id, std::string title, std::string about, CellLook look,
                           const auto& value) {
    Column column{.id = std::move(id),
                  .title = std::move(title),
                  .about = std::move(about),
                  .scale = "memory",
                  .quantity = Quantity::bytes,
                  .look = look};
    column.is_signed = look == CellLook::difference;
    for (const HeldByUnit& row : held)
      column.numbers.push_back(static_cast<double>(value(row).count));
    return column;
  };
  const char* about = "Alive at that side's own peak of the shown step";
  result.table.columns = {std::move(unit), std::move(category),
                          numbers(heads.id_a, heads.title_a, about, heads.look_a,
                                  [](const HeldByUnit& row) { return row.a; }),
                          numbers(heads.id_b, heads.title_b, about, heads.look_b,
                                  [](const HeldByUnit& row) { return row.b; }),
                          numbers("difference", heads.difference, heads.about, CellLook::difference,
                                  [&](const HeldByUnit& row) {
                                    return heads.is_b_less_a ? row.difference()
                                                             : Bytes{-row.difference().count};
                                  })};
  set_units(result.table);
  return result;
}

}  // namespace

RowTable memory_table(const Scenario& scenario, std::size_t rank) {
  const auto predicted = live_at_peak(scenario, SideKind::predicted, rank);
  const auto profiled = live_at_peak(scenario, SideKind::profiled, rank);
  return table_of(held_by_unit(predicted.value_or(LiveSet{}), profiled.value_or(LiveSet{})),
                  {.id_a = "memory_predicted",
                   .id_b = "memory_profiled",
                   .title_a = "At the peak, predicted",
                   .title_b = "At the peak, profiled",
                   .look_a = CellLook::predicted,
                   .look_b = CellLook::profiled,
                   .difference = "Difference, predicted less profiled",
                   .about = "predicted - profiled: above 0 where less was needed than predicted"});
}

RowTable memory_pair_table(const Scenario& a, const Scenario& b, std::size_t rank) {
  for (const SideKind kind : {SideKind::profiled, SideKind::predicted}) {
    const auto of_a = live_at_peak(a, kind, rank), of_b = live_at_peak(b, kind, rank);
    if (!of_a || !of_b) continue;
    const bool is_predicted = kind == SideKind::predicted;
    const CellLook look = is_predicted ? CellLook::predicted : CellLook::profiled;
    const std::string side = is_predicted ? " predicted" : " profiled";
    return table_of(held_by_unit(*of_a, *of_b), {.id_a = "memory_a",
                                                 .id_b = "memory_b",
                                                 .title_a = "At the peak, A" + side,
                                                 .title_b = "At the peak, B" + side,
                                                 .look_a = look,
                                                 .look_b = look,
                                                 .difference = "Difference, B less A",
                                                 .about = "B - A: above 0 where B holds more",
                                                 .is_b_less_a = true});
  }
  return {.problem = "A and B have no memory of one side in common"};
}

}  // namespace shardscope::gui
