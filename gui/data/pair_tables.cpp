#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "gui/data/unit_rows.h"

namespace shardscope::gui {

RunKey run_key(const OperationFacts& facts) {
  return {.name = facts.name, .phase = facts.phase, .micro_batch = facts.micro_batch};
}

std::map<RunKey, NamedRun> named_runs(const Trace& trace) {
  const FactsTable facts(trace);
  std::map<RunKey, int> seen;
  std::map<RunKey, NamedRun> named;
  // Ascending by operation: the second one of a name is so in both schedules.
  for (const auto& [operation, run] : typical_runs(trace)) {
    const OperationFacts* known = facts.find(operation);
    if (known == nullptr) continue;
    RunKey key = run_key(*known);
    key.number = seen[key]++;
    named.emplace(std::move(key), NamedRun{run, *known});
  }
  return named;
}

PairedTraces paired_traces(const Scenario& a, const Scenario& b, std::size_t rank) {
  const ComparedTraces of_a = compared_traces(a, rank), of_b = compared_traces(b, rank);
  if (of_a.profiled != nullptr && of_b.profiled != nullptr)
    return {.a = of_a.profiled, .b = of_b.profiled, .kind = SideKind::profiled};
  if (of_a.predicted != nullptr && of_b.predicted != nullptr)
    return {.a = of_a.predicted, .b = of_b.predicted, .kind = SideKind::predicted};
  return {};
}

namespace {

struct PairRow {
  RunKey key;
  const NamedRun* a = nullptr;
  const NamedRun* b = nullptr;

  const NamedRun& any() const { return a != nullptr ? *a : *b; }
};

std::vector<PairRow> rows_of(const std::map<RunKey, NamedRun>& a,
                             const std::map<RunKey, NamedRun>& b) {
  std::vector<PairRow> rows;
  for (const auto& [key, run] : a) {
    const auto same = b.find(key);
    rows.push_back({.key = key, .a = &run, .b = same == b.end() ? nullptr : &same->second});
  }
  for (const auto& [key, run] : b)
    if (!a.contains(key)) rows.push_back({.key = key, .a = nullptr, .b = &run});
  std::sort(rows.begin(), rows.end(), [](const PairRow& x, const PairRow& y) {
    return std::tuple(x.a == nullptr, x.any().run.operation) <
           std::tuple(y.a == nullptr, y.any().run.operation);
  });
  return rows;
}

RowTarget target_of(const PairRow& row, SideKind kind) {
  const NamedRun& run = row.any();
  RowTarget target{.operation = run.run.operation, .unit = run.facts.unit};
  target.is_of_b = row.a == nullptr;
  const bool is_predicted = kind == SideKind::predicted;
  (is_predicted ? target.predicted_span : target.profiled_span) = run.run.span;
  (is_predicted ? target.predicted : target.profiled) = run.run.window;
  return target;
}

template <class Text>
Column texts(Column column, const std::vector<PairRow>& rows, Text text) {
  std::vector<std::string> all;
  for (const PairRow& row : rows) all.push_back(text(row));
  set_texts(column, all);
  return column;
}

template <class Value>
Column numbers(Column column, const std::vector<PairRow>& rows, Value value) {
  for (const PairRow& row : rows) column.numbers.push_back(value(row));
  return column;
}

double duration_of(const NamedRun* run) {
  return run == nullptr ? no_number : static_cast<double>(run->run.duration.ns);
}

}  // namespace

RowTable operation_pair_table(const Scenario& a, const Scenario& b, std::size_t rank) {
  const PairedTraces pair = paired_traces(a, b, rank);
  if (pair.a == nullptr)
    return {.problem = "A and B have no side in common: profile or predict both"};
  const auto of_a = named_runs(*pair.a), of_b = named_runs(*pair.b);
  const std::vector<PairRow> rows = rows_of(of_a, of_b);
  RowTable result{.table = {.columns = {}, .rows = rows.size()}};
  if (rows.empty()) result.problem = "Neither trace names operations of a schedule";
  for (const PairRow& row : rows) result.targets.push_back(target_of(row, pair.kind));
  const bool is_predicted = pair.kind == SideKind::predicted;
  const std::string kind = is_predicted ? " predicted" : " profiled";
  const CellLook look = is_predicted ? CellLook::predicted : CellLook::profiled;
  auto& columns = result.table.columns;
  columns.push_back(texts({.id = "name", .title = "Operation", .about = "As the schedule calls it"},
                          rows, [](const PairRow& row) { return row.key.name; }));
  columns.push_back(
      texts({.id = "unit", .title = "Unit", .about = "FSDP unit, DDP or ZeRO bucket; (root)"}, rows,
            [](const PairRow& row) {
              const std::string& unit = row.any().facts.unit;
              return unit.empty() ? std::string("(root)") : unit;
            }));
  columns.push_back(
      texts({.id = "kind", .title = "Kind", .about = "compute, all_gather, ..."}, rows,
            [](const PairRow& row) { return std::string(name_of(row.any().facts.kind)); }));
  columns.push_back(
      texts({.id = "phase", .title = "Phase", .about = "forward, backward, optimizer, ..."}, rows,
            [](const PairRow& row) { return std::string(name_of(row.key.phase)); }));
  const Column duration{.id = "duration_a",
                        .title = "Duration, A" + kind,
                        .about = "Of the typical step: the lower median",
                        .scale = "duration",
                        .quantity = Quantity::duration,
                        .look = look};
  Column duration_b = duration, difference = duration;
  duration_b.id = "duration_b";
  duration_b.title = "Duration, B" + kind;
  difference.id = "difference";
  difference.title = "Difference, B less A";
  difference.about = "B - A: above 0 where B takes longer";
  difference.look = CellLook::difference;
  difference.is_signed = true;
  columns.push_back(numbers(duration, rows, [](const PairRow& row) { return duration_of(row.a); }));
  columns.push_back(
      numbers(duration_b, rows, [](const PairRow& row) { return duration_of(row.b); }));
  columns.push_back(numbers(difference, rows, [](const PairRow& row) {
    return duration_of(row.b) - duration_of(row.a);
  }));
  columns.push_back(texts({.id = "in", .title = "In", .about = "Which of the two has it"}, rows,
                          [](const PairRow& row) {
                            if (row.a == nullptr) return std::string("only B");
                            return std::string(row.b == nullptr ? "only A" : "both");
                          }));
  set_units(result.table);
  return result;
}

}  // namespace shardscope::gui
