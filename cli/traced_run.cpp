#include "cli/traced_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "cli/hardware_choice.h"
#include "cli/recorded_prediction.h"
#include "cli/trace_input.h"
#include "core/base/error.h"
#include "core/base/refusal.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "core/pytorch/runtimes/training/run_settings.h"
#include "sim/engine/simulate.h"
#include "sim/prediction/prediction.h"
#include "traces/chrome_reader.h"
#include "traces/import/memory_report.h"
#include "traces/match/match.h"
#include "traces/run_folder.h"
#include "traces/summary.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr const char* settings_name = "settings.json";
/// Whose times are taken where nobody names a machine: what runs does not depend on it.
constexpr const char* usual_machine = "h100_sxm";

Imported read_all(const TracedRunQuestion& question, const OutputOptions& output) {
  Imported all = read_traces({question.traces.begin(), question.traces.end()}, output);
  for (const ImportedTrace& trace : all.traces)
    output.note(fmt::format("{}: {} of {} events", trace.file, trace.report.events_kept,
                            trace.report.events_read));
  for (const std::string& reason : all.left_out) output.note("left out: " + reason);
  if (all.traces.empty())
    throw Error({.where = "--trace",
                 .what = "there is no trace of PyTorch's profiler in what was given",
                 .way_out = "give its .pt.trace.json(.gz) files or their folder"});
  return all;
}

/// settings.json in the folder of the traces.
std::optional<fs::path> settings_beside(const std::vector<std::string>& traces) {
  std::error_code ignored;
  for (const std::string& trace : traces) {
    const fs::path path(trace);
    const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
    if (fs::exists(folder / settings_name, ignored)) return folder / settings_name;
  }
  return std::nullopt;
}

fs::path prediction_path(const TracedRunQuestion& question) {
  std::error_code ignored;
  if (question.predicted) {
    fs::path given(*question.predicted);
    if (!fs::exists(given, ignored))
      throw Error({.where = "--predicted", .what = given.string() + " is not there"});
    const bool is_run = fs::exists(RunFolder{given}.predicted_trace(), ignored);
    if (fs::is_directory(given, ignored) && !is_run) return given / settings_name;
    return given;
  }
  if (const auto beside = settings_beside(question.traces)) return *beside;
  throw Error({.where = "--predicted",
               .what = "no prediction was given, and no settings.json stands beside the trace",
               .way_out = "give a run folder of `shardscope simulate -o`, or the settings.json of "
                          "the run"});
}

/// Predictions for the ranks that have a trace.
class Predictor {
 public:
  Predictor(const TracedRunQuestion& question, TracedRun& run)
      : run_(run), keeps_(question.keeps_prediction) {
    std::error_code ignored;
    const fs::path path = prediction_path(question);
    if (fs::is_directory(path, ignored))
      read_run(path);
    else
      read_settings(path, question.cluster);
  }

  /// Index of the rank's prediction.
  std::size_t of_rank(int rank) {
    if (!settings_) return 0;
    const auto known = by_rank_.find(rank);
    if (known != by_rank_.end()) return known->second;
    by_rank_[rank] = run_.predictions.size();
    run_.predictions.push_back(predict(rank));
    return by_rank_[rank];
  }

 private:
  void read_run(const fs::path& path) {
    const RunFolder folder{path};
    const Summary summary = read_summary(folder.predicted_summary());
    run_.label = fmt::format("{} {} x{}", summary.runtime, summary.strategy, summary.world);
    run_.source = path.string();
    run_.world = summary.world;
    run_.runtime = std::nullopt;
    if (summary.runtime != recorded_runtime)
      run_.runtime = parse_runtime(summary.runtime, folder.predicted_summary().string());
    run_.assumed = summary.assumed;
    run_.predictions.push_back(read_chrome_trace(folder.predicted_trace()).trace);
    run_.assumed.push_back(
        fmt::format("all ranks do as rank {}, which was predicted", run_.predictions[0].rank));
  }

  void read_settings(const fs::path& path, const std::optional<std::string>& cluster) {
    settings_ = JsonValue::read_file(path, DuplicateKeys::last_wins);
    const eager::RunSettings run = read_rank(0);
    const auto found = find_hardware(cluster, "cuda");
    hardware_ = found ? found->profile : find_hardware_profile(usual_machine, "--cluster");
    if (!found) run_.assumed.push_back(fmt::format("times of {} (--cluster)", hardware_.name));
    run_.label =
        fmt::format("{} {} x{}", name_of(run.runtime), name_of(run.sharding), run.setup.world);
    run_.source = fmt::format("{} on {}", path.string(), hardware_.name);
    run_.world = run.setup.world;
    run_.runtime = run.runtime;
    run_.assumed.insert(run_.assumed.end(), run.setup.assumed.begin(), run.setup.assumed.end());
  }

  eager::RunSettings read_rank(int rank) const {
    eager::RunSettings run = eager::read_run_settings(*settings_, rank);
    if (hardware_.compute_capability != 0)
      run.setup.session.compute_capability = hardware_.compute_capability;
    return run;
  }

  Trace predict(int rank) {
    const eager::RunSettings run = read_rank(rank);
    const Schedule schedule =
        eager::recorded_schedule(run.model, run.config, run.setup,
                                 eager::kernel_device(run.setup.session.compute_capability),
                                 {.labels = eager::steps_until_steady(run.setup)});
    if (keeps_ && !run_.made) run_.made = prediction_of(run, schedule);
    return simulate(schedule, hardware_).trace;
  }

  Prediction prediction_of(const eager::RunSettings& run, Schedule schedule) const {
    const eager::TrainingSettings& loop = run.setup.loop;
    schedule.strategy.runtime = run.runtime;
    schedule.workload.batch = loop.batch;
    schedule.workload.length = loop.length;
    schedule.workload.micro_batches = loop.micro_batches;
    schedule.assumed = run_.assumed;
    return shardscope::predict(
        std::move(schedule),
        PredictedRun{
            .strategy = std::string(name_of(run.sharding)),
            .runtime = std::string(name_of(run.runtime)),
            .precision = run.precision,
            .compute = run.precision.starts_with("fp32") ? Dtype::float32 : Dtype::bfloat16,
            .tokens_per_step = loop.batch * loop.length * loop.micro_batches * run.setup.world},
        hardware_);
  }

  TracedRun& run_;
  bool keeps_;
  std::optional<JsonValue> settings_;
  HardwareProfile hardware_;
  std::map<int, std::size_t> by_rank_;
};

/// Of the snapshot of the rank's device, whose figures are absolute.
std::optional<MemoryErrors> snapshot_errors(const std::vector<MemoryReport>& reports, int rank,
                                            bool only_rank, const Trace& predicted) {
  for (const MemoryReport& report : reports) {
    const bool is_ranks = report.rank ? *report.rank == rank : only_rank;
    if (!is_ranks || !report.peak_allocated || report.source != memory_snapshot_source) continue;
    return MemoryErrors{
        .source = report.file,
        .rise = {},
        .peak = SideBySide<Bytes>{{predicted_peak(predicted)}, {*report.peak_allocated}}};
  }
  return std::nullopt;
}

void note_missing(const TracedRun& run, const OutputOptions& output) {
  std::set<int> there;
  for (const TracedRank& rank : run.ranks) there.insert(rank.trace.rank.value_or(0));
  if (there.size() < run.ranks.size())
    output.note("several traces are of one rank, or do not say theirs");
  std::vector<int> missing;
  for (int rank = 0; rank < run.world && missing.size() < 9; ++rank)
    if (!there.contains(rank)) missing.push_back(rank);
  if (missing.empty()) return;
  const bool more = missing.size() > 8;
  if (more) missing.pop_back();
  output.note(fmt::format("of {} ranks, {}{} have no trace", run.world, fmt::join(missing, ", "),
                          more ? " and more" : ""));
}

bool has_gpu(const ImportedTrace& trace) {
  return std::any_of(trace.tracks.begin(), trace.tracks.end(),
                     [](const ImportedTrack& track) { return track.kind == TrackKind::stream; });
}

/// Of TracedRun::times_beside. A predicted trace says its machine as "cuda: h100_sxm".
std::string unlike_machines(const TracedRun& run) {
  for (const TracedRank& rank : run.ranks) {
    const std::string& predicted = run.predicted(rank).device;
    const std::size_t colon = predicted.find(": ");
    const std::string kind = predicted.substr(0, colon);
    const bool is_gpu = has_gpu(rank.trace);
    if (kind.empty() || is_gpu == (kind != "cpu")) continue;
    const std::string name = colon == std::string::npos ? kind : predicted.substr(colon + 2);
    return fmt::format("times of {} beside those of a {}", name, is_gpu ? "GPU" : "CPU");
  }
  return {};
}

}  // namespace

bool TracedRun::complete() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const TracedRank& rank) { return rank.match.complete(); });
}

TracedRun read_traced_run(const TracedRunQuestion& question, const OutputOptions& output) {
  Imported imported = read_all(question, output);
  TracedRun run;
  run.left_out = imported.left_out;
  Predictor predictor(question, run);
  const std::vector<MemoryReport> memory = memory_reports(imported);
  const bool only_rank = imported.traces.size() == 1;
  for (ImportedTrace& trace : imported.traces) {
    const int number = trace.rank.value_or(0);
    const bool is_predicted = number >= 0 && number < run.world;
    TracedRank rank{.prediction = predictor.of_rank(is_predicted ? number : 0)};
    const Trace& predicted = run.predictions[rank.prediction];
    rank.match = match(predicted, trace, run.runtime);
    rank.memory = snapshot_errors(memory, number, only_rank, predicted);
    if (!rank.memory) rank.memory = memory_errors(predicted, trace, rank.match);
    rank.trace = std::move(trace);
    run.ranks.push_back(std::move(rank));
  }
  std::vector<MatchedRank> matched;
  for (const TracedRank& rank : run.ranks) matched.push_back({&run.predicted(rank), &rank.match});
  run.errors = match_errors(matched);
  run.times_beside = unlike_machines(run);
  note_missing(run, output);
  return run;
}

std::optional<double> worst_error(const TracedRun& run) {
  std::optional<double> worst;
  const auto take = [&](std::optional<double> share) {
    if (share) worst = std::max(worst.value_or(0), std::abs(*share));
  };
  if (run.times_comparable()) take(error_share(run.errors.step));
  for (const TracedRank& rank : run.ranks) {
    if (!rank.memory) continue;
    if (rank.memory->peak)
      take(error_share(*rank.memory->peak));
    else if (rank.memory->rise)
      take(error_share(*rank.memory->rise));
  }
  return worst;
}

}  // namespace shardscope
