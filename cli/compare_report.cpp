#include "cli/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/finished_stages.h"
#include "cli/summary_text.h"
#include "cli/table.h"
#include "core/base/quantities.h"
#include "traces/compare.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

Duration step_time(const Summary& summary) { return summary.step_time; }
Bytes peak(const Summary& summary) { return summary.memory.peak_allocated; }
Duration exposed(const Summary& summary) { return summary.time.exposed_communication; }

template <class Side>
bool has_times(const std::optional<Side>& side) {
  return side && !side->value.out_of_memory;
}

template <class Side, class Get>
std::string side_text(const std::optional<Side>& side, const Get& get) {
  return has_times(side) ? rounded_text(get(side->value)) : "-";
}

template <class Side>
std::string step_text(const std::optional<Side>& side) {
  return side && !has_times(side) ? "out of memory" : side_text(side, step_time);
}

std::string rate_text(const Summary& summary) {
  const bool is_known = !summary.out_of_memory && summary.tokens_per_s > 0;
  return is_known ? fmt::format("{:.0f}", summary.tokens_per_s) : "-";
}

/// Of a side without times.
template <class Side>
std::optional<Side> timed(const std::optional<Side>& side) {
  return has_times(side) ? side : std::nullopt;
}

template <class Side>
std::string peak_text(const std::optional<Side>& side) {
  return side ? memory_text(side->value, peak(side->value)) : "-";
}

/// Where a run ran out of memory; "" where it did not.
std::string failed_text(const FinishedRun& run, const Painter& painter) {
  const Summary* failed = run.out_of_memory();
  if (failed == nullptr) return "";
  return fmt::format("{}, {}: ", run.label(), name_of(failed->kind)) +
         out_of_memory_text(*failed, painter);
}

template <class Get>
Cell error_cell(const FinishedRun& run, const Get& get) {
  const auto error = error_of(run, get);
  return Cell(error_text(error), error_paint(error));
}

template <class Side>
void add_run(Json& runs, const FinishedRun& run, const std::optional<Side>& side) {
  if (!side) return;
  Json json{{"run", run.folder.root.string()}};
  json.update(Json::parse(to_json(side->value, "compare")));
  runs.push_back(std::move(json));
}

Json operations_json(const Comparison& comparison) {
  Json result = Json::array();
  for (const OperationComparison& op : comparison.operations) {
    result.push_back({{"id", op.id.value},
                      {"name", op.name},
                      {"predicted_ns", op.duration.predicted.value.ns},
                      {"profiled_ns", op.duration.profiled.value.ns},
                      {"predicted_bytes", op.bytes.predicted.value.count},
                      {"profiled_bytes", op.bytes.profiled.value.count}});
  }
  return result;
}

template <class Side>
Json stage_json(const std::optional<Side>& side) {
  if (!side) return nullptr;
  const StageFigures& of = side->value;
  return {{"compute_ns", of.compute.ns},
          {"exposed_communication_ns", of.exposed_communication.ns},
          {"idle_ns", of.idle.ns},
          {"bubble_share", of.bubble_share},
          {"peak_allocated_bytes", of.peak.count}};
}

Json stages_json(const std::vector<StageSides>& stages) {
  Json result = Json::array();
  for (const StageSides& rank : stages)
    result.push_back({{"rank", rank.rank},
                      {"predicted", stage_json(rank.predicted)},
                      {"profiled", stage_json(rank.profiled)}});
  return result;
}

Json number_or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json peak_error_json(const FinishedRun& run) {
  if (run.out_of_memory()) return nullptr;
  return (peak(run.predicted->value) - peak(run.profiled->value)).count;
}

/// `index` counts the entries of `runs`, where each side of a run is one.
Json pair_json(const FinishedRun& run, std::size_t index) {
  Json json{{"run", run.folder.root.string()},
            {"predicted", index},
            {"profiled", index + 1},
            {"step_time_error_share", number_or_null(error_of(run, step_time))},
            {"peak_error_bytes", peak_error_json(run)},
            {"peak_error_share", number_or_null(error_of(run, peak))},
            {"operations", Json::array()},
            {"largest", Json::array()},
            {"stages", Json::array()}};
  if (run.out_of_memory()) return json;
  json["stages"] = stages_json(sides_of(read_stages(run)));
  const RunTraces traces = read_traces(run);
  if (traces.predicted && traces.profiled) {
    json["operations"] = operations_json(compare(Predicted<const Trace&>{traces.predicted->value},
                                                 Profiled<const Trace&>{traces.profiled->value}));
    json["largest"] = Json::parse(to_json(*differences_of(run, traces)))["largest"];
  }
  return json;
}

/// Of each run its label, and its folder where other runs have the same label.
std::vector<std::string> distinct_labels(const std::vector<FinishedRun>& runs) {
  std::vector<std::string> labels;
  for (const FinishedRun& run : runs) {
    const auto same = std::ranges::count(runs, run.label(), &FinishedRun::label);
    const std::string folder = same > 1 ? ", " + run.folder.root.string() : "";
    labels.push_back(run.label() + folder);
  }
  return labels;
}

}  // namespace

std::string run_text(const FinishedRun& run, const Painter& painter) {
  const std::string failure = failed_text(run, painter);
  const auto predicted = timed(run.predicted);
  const auto profiled = timed(run.profiled);
  if (!predicted && !profiled) return failure;
  return failure + comparison_text(predicted, profiled, painter) +
         stages_text(sides_of(read_stages(run)), painter);
}

std::string runs_text(const std::vector<FinishedRun>& runs, const Painter& painter) {
  Table table({{"strategy"},
               {"peak", Align::right},
               {"profiled", Align::right},
               {"error", Align::right},
               {"step", Align::right},
               {"profiled", Align::right},
               {"error", Align::right},
               {"exposed", Align::right},
               {"profiled", Align::right},
               {"tokens/s", Align::right}});
  const std::vector<std::string> labels = distinct_labels(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const FinishedRun& run = runs[i];
    table.row({labels[i], peak_text(run.predicted), peak_text(run.profiled), error_cell(run, peak),
               step_text(run.predicted), step_text(run.profiled), error_cell(run, step_time),
               side_text(run.predicted, exposed), side_text(run.profiled, exposed),
               rate_text(run.summary())});
  }
  std::string failures;
  for (const FinishedRun& run : runs) failures += failed_text(run, painter);
  return table.text(painter) +
         "\n  peak: live bytes of rank 0; step, exposed: time of a steady step and of its "
         "exposed communication.\n"
         "  Left of each \"profiled\" stands what was predicted; error = (predicted - profiled) "
         "/ profiled.\n" +
         failures;
}

std::string runs_json(const std::vector<FinishedRun>& runs) {
  Json all = Json::array();
  Json pairs = Json::array();
  for (const FinishedRun& run : runs) {
    if (run.predicted && run.profiled) pairs.push_back(pair_json(run, all.size()));
    add_run(all, run, run.predicted);
    add_run(all, run, run.profiled);
  }
  const Json json{
      {"schema", "shardscope.compare/1"}, {"runs", std::move(all)}, {"pairs", std::move(pairs)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<StrategyBars> bars_of(const std::vector<FinishedRun>& runs) {
  std::vector<StrategyBars> bars;
  const std::vector<std::string> labels = distinct_labels(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const FinishedRun& run = runs[i];
    StrategyBars bar{.label = labels[i]};
    if (run.predicted) {
      bar.predicted_peak = {peak(run.predicted->value)};
      if (has_times(run.predicted)) bar.predicted_step = {step_time(run.predicted->value)};
    }
    if (run.profiled) {
      bar.profiled_peak = {peak(run.profiled->value)};
      if (has_times(run.profiled)) bar.profiled_step = {step_time(run.profiled->value)};
    }
    bars.push_back(std::move(bar));
  }
  return bars;
}

std::optional<double> worst_error(const std::vector<FinishedRun>& runs) {
  std::optional<double> worst;
  for (const FinishedRun& run : runs) {
    for (const auto& error : {error_of(run, step_time), error_of(run, peak)}) {
      if (error) worst = std::max(worst.value_or(0), std::abs(*error));
    }
  }
  return worst;
}

}  // namespace shardscope
