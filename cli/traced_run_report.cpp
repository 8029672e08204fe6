#include "cli/traced_run_report.h"

#include <fmt/format.h>

#include <set>

#include "cli/summary_text.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

constexpr std::size_t shown_differences = 12;

std::string sure_text(const PairCounts& counts) {
  std::string text;
  const auto add = [&](std::int64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(count), what);
  };
  add(counts.all_fields, "in all fields");
  add(counts.known_fields, "in all that the trace says");
  add(counts.order_and_kind, "by order and kind alone");
  return text;
}

void add_counts(Table& table, std::string_view what, const PairCounts& counts,
                const std::string& how) {
  const bool complete = counts.complete();
  table.row({std::string(what), grouped(counts.predicted), grouped(counts.profiled),
             Cell(grouped(counts.matched()), complete ? Paint::good : Paint::bad), how});
}

std::string match_table(const TracedRun& run, const Painter& painter) {
  PairCounts steps, units, collectives, compute;
  std::set<std::string> ways;
  for (const TracedRank& rank : run.ranks) {
    steps += rank.match.all_steps();
    units += rank.match.all_units();
    collectives += rank.match.all_collectives();
    compute += rank.match.all_compute();
    for (const UnitPair& unit : rank.match.units)
      if (unit.matched) ways.insert("by " + unit.by);
  }
  Table table({{"matched"},
               {"predicted", Align::right},
               {"profiled", Align::right},
               {"matched", Align::right},
               {"how sure"}});
  add_counts(table, "steps", steps,
             run.ranks.empty() ? "" : fmt::format("{}", name_of(run.ranks[0].match.step_marks)));
  add_counts(
      table, "units", units,
      ways.empty() ? sure_text(units) : fmt::format("{}, {}", *ways.begin(), sure_text(units)));
  add_counts(table, "collectives", collectives, sure_text(collectives));
  add_counts(table, "operators", compute, sure_text(compute));
  return table.text(painter);
}

/// Shapes of long lists of tensors are in the JSON.
std::string cut(const std::string& text) {
  constexpr std::size_t most = 90;
  if (text.empty()) return "nothing";
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string difference_line(const TracedRank& rank, const MatchDifference& difference) {
  const std::string step = difference.step.empty() ? "" : ", " + difference.step;
  return fmt::format("  rank {}{}, {}: predicted {}; in the trace {}\n",
                     rank.match.rank.value_or(0), step, difference.what, cut(difference.predicted),
                     cut(difference.profiled));
}

/// What is not compute comes first: operators differ with every release of PyTorch.
std::string differences_text(const TracedRun& run) {
  std::string text;
  std::size_t all = 0;
  for (const bool compute : {false, true}) {
    for (const TracedRank& rank : run.ranks) {
      for (const MatchDifference& difference : rank.match.differences) {
        if ((difference.what == "compute") != compute) continue;
        if (all < shown_differences) text += difference_line(rank, difference);
        ++all;
      }
    }
  }
  if (text.empty()) return text;
  if (all > shown_differences)
    text += fmt::format("  and {} more (--json)\n", all - shown_differences);
  return "\nwithout counterpart\n" + text;
}

enum class Judged : std::uint8_t { no, yes };

template <class Quantity>
std::vector<Cell> error_cells(std::string name, const SideBySide<Quantity>& pair, Judged judged) {
  const auto share = error_share(pair);
  const Paint paint = judged == Judged::yes ? error_paint(share) : Paint::plain;
  return {std::move(name), rounded_text(pair.predicted.value), rounded_text(pair.profiled.value),
          Cell(error_text(share), paint)};
}

std::vector<Column> error_columns(std::string heading) {
  return {{std::move(heading)},
          {"predicted", Align::right},
          {"profiled", Align::right},
          {"error", Align::right}};
}

std::string category_table(const MatchErrors& errors, Judged judged, const Painter& painter) {
  Table table(error_columns("time of a step"));
  table.row(error_cells("step", errors.step, judged));
  table.row(error_cells("compute", errors.compute, judged));
  table.row(error_cells("communication", errors.communication, judged));
  table.row(error_cells("copies", errors.copy, judged));
  table.row(error_cells("unmatched compute", errors.unmatched, judged));
  return table.text(painter);
}

std::string unit_name(const std::optional<std::string>& unit) {
  if (!unit) return "(no unit)";
  return unit->empty() ? "(root)" : *unit;
}

std::string unit_table(const MatchErrors& errors, Judged judged, const Painter& painter) {
  Table table({{"by unit"},
               {"compute", Align::right},
               {"profiled", Align::right},
               {"error", Align::right},
               {"communication", Align::right},
               {"profiled", Align::right},
               {"error", Align::right}});
  for (const UnitErrors& unit : errors.by_unit) {
    std::vector<Cell> cells = error_cells(unit_name(unit.unit), unit.compute, judged);
    const std::vector<Cell> more = error_cells("", unit.communication, judged);
    cells.insert(cells.end(), more.begin() + 1, more.end());
    table.row(std::move(cells));
  }
  return table.text(painter);
}

std::string times_text(const TracedRun& run, const Painter& painter) {
  const Judged judged = run.times_comparable() ? Judged::yes : Judged::no;
  const std::string heading =
      run.times_comparable() ? ""
                             : painter(Paint::bold, run.times_beside + ": not comparable") + "\n\n";
  return heading + category_table(run.errors, judged, painter) + "\n" +
         unit_table(run.errors, judged, painter);
}

std::string memory_table(const TracedRun& run, const Painter& painter) {
  Table table(error_columns("memory"));
  bool any = false;
  for (const TracedRank& rank : run.ranks) {
    if (!rank.memory) continue;
    any = true;
    const int number = rank.match.rank.value_or(0);
    if (rank.memory->peak)
      table.row(
          error_cells(fmt::format("peak of rank {}", number), *rank.memory->peak, Judged::yes));
    if (rank.memory->rise)
      table.row(error_cells(fmt::format("most above a step's start, rank {}", number),
                            *rank.memory->rise, Judged::yes));
  }
  return any ? "\n" + table.text(painter) : "";
}

std::string notes_text(const TracedRun& run) {
  std::set<std::string> seen;
  std::string text;
  for (const TracedRank& rank : run.ranks)
    for (const std::string& note : rank.match.notes)
      if (seen.insert(note).second) text += "note: " + note + "\n";
  return text.empty() ? text : "\n" + text;
}

}  // namespace

std::string traced_run_text(const TracedRun& run, const Painter& painter) {
  const std::string verdict =
      run.complete() ? painter(Paint::good, "every step, unit and collective has its counterpart")
                     : painter(Paint::bad, "not everything has a counterpart");
  return painter(Paint::bold, run.label) +
         fmt::format("\npredicted from {}\n{}\n\n", run.source, verdict) +
         match_table(run, painter) + differences_text(run) + notes_text(run) + "\n" +
         times_text(run, painter) + memory_table(run, painter);
}

}  // namespace shardscope
