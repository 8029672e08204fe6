// shardscope compare: runs side by side, predicted and profiled.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cli/compare_page.h"
#include "cli/compare_report.h"
#include "cli/finished_run.h"
#include "cli/html_page.h"
#include "cli/measured_comparison.h"
#include "cli/output_options.h"
#include "cli/prediction.h"
#include "cli/traced_run.h"
#include "cli/traced_run_report.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "traces/figure.h"
#include "traces/match/matched_trace.h"

namespace shardscope {
namespace {

struct CompareOptions {
  std::vector<std::string> folders;
  TracedRunQuestion traced;
  std::vector<std::string> measured;
  std::optional<std::string> output_path;  ///< of a folder, or of a page: .html
  std::optional<double> tolerance;
  bool median = false;
  OutputOptions output;
};

/// A run out of memory has no step time: it is behind all that have one.
bool is_faster(const FinishedRun& a, const FinishedRun& b) {
  const Summary &of_a = a.summary(), &of_b = b.summary();
  const bool a_ran = !of_a.out_of_memory, b_ran = !of_b.out_of_memory;
  return a_ran != b_ran ? a_ran : a_ran && of_a.step_time < of_b.step_time;
}

/// Of the runs of each strategy and world the one with the median step time, the lower one of two;
/// in order of first appearance.
std::vector<FinishedRun> medians(const std::vector<FinishedRun>& runs) {
  std::vector<std::vector<FinishedRun>> by_label;
  for (const FinishedRun& run : runs) {
    const auto same = [&](const auto& others) { return others.front().label() == run.label(); };
    auto others = std::find_if(by_label.begin(), by_label.end(), same);
    if (others == by_label.end()) others = by_label.insert(others, std::vector<FinishedRun>{});
    others->push_back(run);
  }
  std::vector<FinishedRun> result;
  for (auto& alike : by_label) {
    std::stable_sort(alike.begin(), alike.end(), is_faster);
    result.push_back(alike[(alike.size() - 1) / 2]);
  }
  return result;
}

std::vector<FinishedRun> read_runs(const CompareOptions& options) {
  if (options.folders.empty()) {
    throw Error({.where = "RUN", .what = "no run folder was given", .way_out = "give one or more"});
  }
  std::vector<FinishedRun> runs;
  for (const std::string& folder : options.folders) runs.push_back(read_run({folder}));
  return options.median ? medians(runs) : runs;
}

std::string differences_text(const FinishedRun& run) {
  if (run.out_of_memory()) return "";
  const std::optional<Differences> differences = differences_of(run, read_traces(run));
  return differences && differences->has_prediction ? "\nprofiled " + to_text(*differences) : "";
}

/// One run is shown in full, several as a row each.
std::string text_of(const std::vector<FinishedRun>& runs, const Painter& painter) {
  if (runs.size() > 1) return runs_text(runs, painter);
  const FinishedRun& run = runs.front();
  return painter(Paint::bold, run.label()) + "\n\n" + run_text(run, painter) +
         differences_text(run);
}

void leave_figure(const std::string& folder, const char* name, const std::string& figure) {
  create_folder(folder);
  write_atomically(std::filesystem::path(folder) / name, figure);
}

/// The predicted streams of the first rank above those that the trace has of them; none where the
/// trace has nothing of them.
std::optional<std::string> figure_of(const TracedRun& run) {
  const TracedRank& rank = run.ranks.front();
  const Trace& predicted = run.predicted(rank);
  const Trace profiled = matched_trace(predicted, rank.trace, rank.match);
  if (profiled.spans.empty()) return std::nullopt;
  return streams_figure({&predicted}, {&profiled}, run.label + ", predicted and in the trace");
}

bool is_page(const std::string& path) { return std::filesystem::path(path).extension() == ".html"; }

void leave(const std::vector<FinishedRun>& runs, const std::string& path) {
  if (is_page(path)) return write_atomically(path, runs_page(runs));
  leave_figure(path, "strategies.svg",
               strategies_figure(bars_of(runs), "Predicted and profiled, by strategy"));
}

void leave(const TracedRun& run, const std::string& folder) {
  const auto figure = figure_of(run);
  if (is_page(folder)) {
    const std::string text = traced_run_text(run, Painter(ColorChoice::never));
    return write_atomically(folder, html_page(run.label + ", predicted and in the trace",
                                              figure.value_or(""), {{"Comparison", text}}));
  }
  if (figure) leave_figure(folder, "streams.svg", *figure);
  if (run.made) write_prediction(*run.made, "simulate", {folder});
}

/// `worst`: the largest |error|; none where nothing has both sides.
ExitCode verdict(std::optional<double> worst, const CompareOptions& options) {
  if (!options.tolerance) return ExitCode::done;
  if (!std::isfinite(*options.tolerance) || *options.tolerance < 0)
    throw Error({.where = "--tolerance",
                 .what = fmt::format("expected a share of 0 or more, got {}", *options.tolerance),
                 .way_out = "give 0.15 for 15%"});
  if (!worst)
    throw Error({.where = "--tolerance",
                 .what = "nothing has both a prediction and a measurement that it can be compared "
                         "with"});
  if (*worst <= *options.tolerance) return ExitCode::done;
  options.output.note(fmt::format("the worst error, {:.1f}%, is above the tolerance of {:.1f}%",
                                  *worst * 100, *options.tolerance * 100));
  return ExitCode::no;
}

ExitCode compare_traced(const CompareOptions& options) {
  if (!options.folders.empty())
    throw Error({.where = "RUN",
                 .what = "run folders and --trace were both given",
                 .way_out = "give the run that was predicted as --predicted"});
  if (options.traced.traces.empty())
    throw Error({.where = "--predicted",
                 .what = "there is no trace to lay beside it",
                 .way_out = "give --trace FILE..."});
  TracedRunQuestion question = options.traced;
  question.keeps_prediction = options.output_path && !is_page(*options.output_path);
  const TracedRun run = read_traced_run(question, options.output);
  if (!options.output.json) note_assumptions(options.output, run.assumed);
  print(options.output.json ? traced_run_json(run)
                            : traced_run_text(run, options.output.painter()));
  if (options.output_path) leave(run, *options.output_path);
  const ExitCode within = verdict(worst_error(run), options);
  if (run.complete()) return within;
  options.output.note("not everything has a counterpart");
  return ExitCode::no;
}

ExitCode run_measured(const CompareOptions& options) {
  if (!options.folders.empty() || !options.traced.traces.empty())
    throw Error({.where = "--measured",
                 .what = "run folders or traces were given, too",
                 .way_out = "give the run that was predicted as --predicted, and nothing else"});
  if (!options.traced.predicted)
    throw Error({.where = "--measured",
                 .what = "there is no prediction to lay beside it",
                 .way_out = "give --predicted RUN, a folder of `shardscope simulate -o`"});
  const MeasuredComparison comparison =
      compare_measured(*options.traced.predicted, options.measured);
  print(options.output.json ? measured_json(comparison)
                            : measured_text(comparison, options.output.painter()));
  return verdict(worst_error(comparison), options);
}

ExitCode run_compare(const CompareOptions& options) {
  if (!options.measured.empty()) return run_measured(options);
  if (options.traced.predicted || !options.traced.traces.empty()) return compare_traced(options);
  const std::vector<FinishedRun> runs = read_runs(options);
  print(options.output.json ? runs_json(runs) : text_of(runs, options.output.painter()));
  if (options.output_path) leave(runs, *options.output_path);
  return verdict(worst_error(runs), options);
}

}  // namespace

void declare_compare(Command& command) {
  const auto options = std::make_shared<CompareOptions>();
  command.positionals("RUN", options->folders, "run folders of train or simulate -o");
  command.heading("Comparison");
  command.option("--tolerance", options->tolerance,
                 {"SHARE", "exits with 1 if step time or peak is off by more; 0.15 is 15%"});
  command.flag("--median", options->median,
               "takes the run with the median step time of each strategy");
  command.option(
      "-o", options->output_path,
      {"PATH",
       "folder for strategies.svg, with --trace for streams.svg and the prediction; or a page of "
       "its own, report.html, with the tables, streams and memory of every run"});
  command.heading("A run of PyTorch beside its prediction");
  command.options("--trace", options->traced.traces,
                  {"FILE",
                   "traces of PyTorch's profiler: a file, one for each rank, or their "
                   "folder; memory snapshots with them"});
  command.option("--predicted", options->traced.predicted,
                 {"RUN",
                  "run folder of simulate -o, or the settings.json of the run (default: the one "
                  "beside the traces)"});
  command.option("--cluster", options->traced.cluster,
                 {"FILE|NAME", "hardware profile to predict a settings.json with"});
  command.heading("A prediction beside what others logged of the run");
  command.options("--measured", options->measured,
                  {"FILE",
                   "step times and memory of the run --predicted: event files of TensorBoard, "
                   ".wandb files, folders of these, CSV of nvidia-smi, output of sacct"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope compare runs/demo/full_shard", "one run in full"},
       {"shardscope compare runs/demo/* -o figures --tolerance 0.15",
        "every strategy of the demo, a picture, and exit 1 if a prediction is off by "
        "more than 15%"},
       {"shardscope compare runs/demo/full_shard -o report.html",
        "a page for people without the program: tables, streams to zoom into, memory"},
       {"shardscope compare --trace theirs/ --json",
        "compares all ranks of a PyTorch run with the prediction for its "
        "settings.json: matches, how sure they are, errors by unit and category"},
       {"shardscope compare --predicted runs/predicted --trace rank*.pt.trace.json.gz",
        "the same with a run folder of simulate -o"},
       {"shardscope compare --predicted runs/predicted --measured logs/ nvidia_smi.csv",
        "step time by TensorBoard's or W&B's files, memory by nvidia-smi's"}});
  command.action([options] { return run_compare(*options); });
}

}  // namespace shardscope
