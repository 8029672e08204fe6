#include "cli/measured_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/summary_text.h"
#include "cli/table.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "traces/memory_fit.h"
#include "traces/run_folder.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

Summary prediction_in(const std::string& run) {
  const RunFolder folder{run};
  if (is_there(folder.predicted_summary())) return read_summary(folder.predicted_summary());
  throw Error({.where = "--predicted",
               .what = run + " holds no prediction: predicted/summary.json is not in it",
               .way_out = "give a run folder of `shardscope simulate -o`"});
}

std::optional<Bytes> predicted_of(const Summary& summary, MeasuredMemoryKind kind) {
  switch (kind) {
    case MeasuredMemoryKind::device:
      return needed_memory(summary);
    case MeasuredMemoryKind::reserved:
      return summary.memory.peak_reserved;
    case MeasuredMemoryKind::active:
      return summary.memory.peak_active;
    case MeasuredMemoryKind::allocated:
      return summary.memory.peak_allocated;
    case MeasuredMemoryKind::host:
      break;
  }
  return std::nullopt;
}

std::optional<double> error_of(const MemoryBeside& memory) {
  if (!memory.predicted) return std::nullopt;
  return error_share(SideBySide<Bytes>{{*memory.predicted}, {memory.measured.bytes}});
}

std::optional<double> step_error(const MeasuredComparison& comparison) {
  if (!comparison.measured.step_time) return std::nullopt;
  return error_share(SideBySide<Duration>{{comparison.predicted.step_time},
                                          {comparison.measured.step_time->median}});
}

Cell error_cell(std::optional<double> error) { return Cell(error_text(error), error_paint(error)); }

Json number_or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json step_json(const MeasuredComparison& comparison) {
  const auto& step = comparison.measured.step_time;
  if (!step) return nullptr;
  return {{"predicted_ns", comparison.predicted.step_time.ns},
          {"predicted_low_ns", comparison.predicted.step_time_low.ns},
          {"predicted_high_ns", comparison.predicted.step_time_high.ns},
          {"profiled_ns", step->median.ns},
          {"profiled_low_ns", step->low.ns},
          {"profiled_high_ns", step->high.ns},
          {"error_share", number_or_null(step_error(comparison))},
          {"intervals", step->intervals},
          {"source", step->source}};
}

}  // namespace

MeasuredComparison compare_measured(const std::string& run, const std::vector<std::string>& files) {
  MeasuredComparison comparison{.run = run, .predicted = prediction_in(run)};
  for (const std::string& file : files) {
    if (!is_there(file)) throw Error({.where = "--measured", .what = file + " is not there"});
    std::vector<MetricLog> logs = read_metric_logs(file);
    std::move(logs.begin(), logs.end(), std::back_inserter(comparison.logs));
  }
  comparison.measured = measured_run(comparison.logs);
  for (const MeasuredMemory& memory : comparison.measured.memory)
    comparison.memory.push_back({memory, predicted_of(comparison.predicted, memory.kind)});
  if (!comparison.measured.step_time && comparison.memory.empty())
    throw Error(
        {.where = "--measured",
         .what = "neither step times nor memory were found in what was given",
         .way_out =
             "give logs with a number for each step (TensorBoard, W&B), or memory (nvidia-smi "
             "--query-gpu=index,memory.used --format=csv -l 1, sacct -P -o "
             "JobID,Elapsed,MaxRSS,TRESUsageInMax)"});
  return comparison;
}

std::string measured_text(const MeasuredComparison& comparison, const Painter& painter) {
  Table table({{"what"},
               {"predicted", Align::right},
               {"measured", Align::right},
               {"error", Align::right},
               {"measured by"}});
  if (const auto& step = comparison.measured.step_time)
    table.row({"step time", rounded_text(comparison.predicted.step_time),
               rounded_text(step->median), error_cell(step_error(comparison)),
               fmt::format("{} ({} intervals, {} to {})", step->source, step->intervals,
                           rounded_text(step->low), rounded_text(step->high))});
  for (const MemoryBeside& memory : comparison.memory)
    table.row({fmt::format("{} memory", name_of(memory.measured.kind)),
               memory.predicted ? rounded_text(*memory.predicted) : "-",
               rounded_text(memory.measured.bytes), error_cell(error_of(memory)),
               fmt::format("{} ({} samples)", memory.measured.source, memory.measured.samples)});
  if (comparison.measured.elapsed)
    table.row(
        {"whole job", "-", rounded_text(*comparison.measured.elapsed), "", "Slurm's Elapsed"});
  std::string text = fmt::format("{} {} x{}\n\n", comparison.predicted.runtime,
                                 comparison.predicted.strategy, comparison.predicted.world);
  text += table.text(painter);
  text +=
      "\n  error = (predicted - measured) / measured; of several devices the one with most "
      "memory\n";
  for (const std::string& note : comparison.measured.notes) text += "  " + note + "\n";
  return text;
}

std::string measured_json(const MeasuredComparison& comparison) {
  Json files = Json::array(), memory = Json::array();
  for (const MetricLog& log : comparison.logs)
    files.push_back(
        {{"file", log.file}, {"format", name_of(log.format)}, {"series", log.series.size()}});
  for (const MemoryBeside& one : comparison.memory)
    memory.push_back(
        {{"kind", name_of(one.measured.kind)},
         {"predicted_bytes", one.predicted ? Json(one.predicted->count) : Json(nullptr)},
         {"profiled_bytes", one.measured.bytes.count},
         {"error_share", number_or_null(error_of(one))},
         {"samples", one.measured.samples},
         {"source", one.measured.source}});
  const auto& elapsed = comparison.measured.elapsed;
  const Json json{{"schema", "shardscope.compare/1"},
                  {"run", comparison.run},
                  {"files", std::move(files)},
                  {"step_time", step_json(comparison)},
                  {"memory", std::move(memory)},
                  {"elapsed_ns", elapsed ? Json(elapsed->ns) : Json(nullptr)},
                  {"notes", comparison.measured.notes}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<double> worst_error(const MeasuredComparison& comparison) {
  std::optional<double> worst;
  const auto take = [&](std::optional<double> error) {
    if (error) worst = std::max(worst.value_or(0), std::abs(*error));
  };
  take(step_error(comparison));
  for (const MemoryBeside& memory : comparison.memory) take(error_of(memory));
  return worst;
}

}  // namespace shardscope
