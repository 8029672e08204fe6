// shardscope report: what a trace amounts to, whoever recorded it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/imported_report.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/report_folded.h"
#include "cli/report_query.h"
#include "cli/trace_input.h"
#include "cli/verb.h"
#include "cli/whole_traces.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "traces/figure.h"
#include "traces/import/analysis_rules.h"
#include "traces/import/import.h"
#include "traces/import/imported_spans.h"
#include "traces/import/memory_curve_figure.h"
#include "traces/import/trace_report.h"
#include "traces/perfetto_writer.h"
#include "traces/run_folder.h"
#include "traces/summary.h"

namespace shardscope {
namespace {

struct ReportOptions {
  std::optional<std::string> path, definitions, rules, kernel_gap, sql, output_path, folded, memory;
  bool print_rules = false, one_run = false;
  OutputOptions output;
};

Definitions definitions_of(const std::optional<std::string>& text) {
  if (!text) return Definitions::own;
  for (const Definitions known : all_definitions) {
    if (*text == name_of(known)) return known;
  }
  throw Error({.where = "--definitions",
               .what = fmt::format("\"{}\" is not known", *text),
               .way_out = "own, hta, hta_exact or trace_lens"});
}

/// The traces of a run folder are its profiled ones, or else the prediction.
std::filesystem::path traces_in(const std::filesystem::path& path) {
  const bool is_profiled = std::filesystem::exists(path / "trace.0.json.gz");
  const auto predicted = path / "predicted" / "trace.json.gz";
  return !is_profiled && std::filesystem::exists(predicted) ? predicted : path;
}

/// A prediction that ran out of memory has no step to report.
void refuse_out_of_memory(const std::filesystem::path& run) {
  const RunFolder folder{run};
  if (!is_there(folder.predicted_summary())) return;
  const auto failed = read_summary(folder.predicted_summary()).out_of_memory;
  if (!failed) return;
  throw Error({.where = run.string(),
               .what = fmt::format("is out of memory in step {}: {} asks for {}, and {} of the "
                                   "device are free",
                                   failed->step, failed->operation, rounded_text(failed->requested),
                                   rounded_text(failed->free)),
               .way_out = "`shardscope simulate` says what lives then and what helps",
               .code = ExitCode::no});
}

/// What the pictures of a report are made of.
struct Pictured {
  const Imported& imported;
  const FrameRules& memory_rules;
  std::string title;
};

/// Memory over time of each device of each file that has a history.
std::vector<std::string> memory_figures(const Pictured& from) {
  std::vector<MemoryCurve> curves;
  for (const MemorySnapshot& snapshot : from.imported.snapshots) {
    for (const std::int64_t device : snapshot.devices())
      curves.push_back(memory_curve(snapshot, device, from.memory_rules));
  }
  for (const MemoryTimeline& timeline : from.imported.timelines)
    curves.push_back(memory_curve(timeline));
  std::vector<std::string> figures;
  for (const MemoryCurve& curve : curves) {
    if (!curve.stack.levels.empty()) figures.push_back(memory_curve_figure(curve, from.title));
  }
  return figures;
}

/// Streams of the first rank, where a device is in the trace; then memory.
std::vector<std::string> figures_of(const Pictured& from) {
  std::vector<std::string> figures;
  if (!from.imported.traces.empty()) {
    const Trace spans = device_spans(from.imported.traces.front());
    if (!spans.spans.empty()) figures.push_back(streams_figure({nullptr}, {&spans}, from.title));
  }
  for (std::string& figure : memory_figures(from)) figures.push_back(std::move(figure));
  return figures;
}

void check_suffix(const std::filesystem::path& path) {
  constexpr std::array known{".txt", ".json", ".html", ".svg"};
  if (is_perfetto_name(path) || std::count(known.begin(), known.end(), path.extension()) > 0)
    return;
  throw Error({.where = "-o " + path.string(),
               .what = "the name must end in .txt, .json, .html, .svg or .pftrace"});
}

/// Pages and pictures are never read, so that they may be drawn anew among what is.
bool is_drawn(const std::filesystem::path& path) {
  return is_perfetto_name(path) || path.extension() == ".html" || path.extension() == ".svg";
}

void check_report_paths(const ReportOptions& options) {
  std::vector<std::filesystem::path> inputs{*options.path};
  if (options.rules) inputs.emplace_back(*options.rules);
  if (options.folded) {
    refuse_over_input(*options.folded, inputs, "--folded");
    refuse_over_contents(*options.folded, inputs, "--folded");
  }
  if (!options.output_path) return;
  const std::filesystem::path output = *options.output_path;
  const auto whole = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  if (options.folded && whole(*options.folded) == whole(output))
    throw Error({.where = "--folded " + *options.folded,
                 .what = "-o names the same file",
                 .way_out = "give another name"});
  check_suffix(output);
  refuse_over_input(output, inputs, "-o");
  if (!is_drawn(output)) refuse_over_contents(output, inputs, "-o");
}

void leave(const std::filesystem::path& path, const TraceReport& report, const Pictured& from) {
  const std::string suffix = path.extension().string();
  if (suffix == ".json") return write_atomically(path, to_json(report));
  if (suffix == ".txt")
    return write_atomically(path, report_text(report, Painter(ColorChoice::never)));
  const std::vector<std::string> figures = figures_of(from);
  if (suffix == ".html")
    return write_atomically(
        path, report_page(report, from.title, fmt::format("{}", fmt::join(figures, "\n"))));
  if (figures.empty())
    throw Error({.where = "-o",
                 .what = "nothing to draw: no device is in the trace, and no history of memory"});
  write_atomically(path, figures.front());
}

ExitCode run_report(const ReportOptions& options) {
  const Definitions definitions = definitions_of(options.definitions);
  const AnalysisRules rules = options.rules ? read_analysis_rules(*options.rules, definitions)
                                            : analysis_rules(definitions);
  if (options.print_rules) {
    print(to_json(rules));
    return ExitCode::done;
  }
  if (!options.path)
    throw Error({.where = "FILE", .what = "no trace was given", .way_out = "see --help"});
  if (options.sql) return report_query(*options.path, *options.sql, options.output);
  check_report_paths(options);
  const std::filesystem::path from = traces_in(*options.path);
  if (from != *options.path) refuse_out_of_memory(*options.path);
  Imported imported = read_traces(
      {from}, options.output,
      {.most = trace_memory(options.memory), .converts = options.output_path.has_value()});
  require_events(imported, from);
  if (!options.one_run) refuse_several_runs(imported, from);
  for (ImportedTrace& trace : imported.traces) classify(trace, rules.events);
  const Duration kernel_gap =
      options.kernel_gap ? parse_duration(*options.kernel_gap, "--kernel-gap") : default_kernel_gap;
  const TraceReport report = report_of(
      imported, {.definitions = definitions, .kernel_gap = kernel_gap, .memory = rules.memory});
  print(options.output.json ? to_json(report) : report_text(report, options.output.painter()));
  if (options.folded) write_atomically(*options.folded, folded_report(imported, from));
  const std::string title = std::filesystem::path(*options.path).filename().string();
  if (!options.output_path) return ExitCode::done;
  if (is_perfetto_name(*options.output_path)) {
    write_perfetto_trace(whole_traces(from, imported.traces), *options.output_path);
  } else {
    leave(*options.output_path, report, {imported, rules.memory, title});
  }
  return ExitCode::done;
}

}  // namespace

void declare_report(Command& command) {
  const auto options = std::make_shared<ReportOptions>();
  command.positional("FILE", options->path,
                     "a trace (Chrome JSON, .gz, .tar.gz, Nsight's .sqlite), a memory snapshot or "
                     "timeline, a folder of them, or a run folder");
  command.flag("--one-run", options->one_run,
               "takes all traces of a folder for ranks of one run, whatever they say");
  command.heading("Analysis");
  command.option(
      "--definitions", options->definitions,
      {"own|hta|hta_exact|trace_lens", "whose rules tell compute, communication and copies"});
  command.option("--rules", options->rules,
                 {"FILE", "your rules for events and memory, in the format of --print-rules"});
  command.flag("--print-rules", options->print_rules,
               "prints only the rules, as JSON that can be edited");
  command.option(
      "--kernel-gap", options->kernel_gap,
      {"TIME", "shorter idle time counts as the gap between two kernels (default: 30 us)"});
  command.option(
      "--sql", options->sql,
      {"SELECT",
       "prints what this query finds in the tables spans, units, steps, memory, buffers, "
       "allocations and events; `select * from tables` lists their columns"});
  declare_memory_option(command, options->memory);
  command.option("-o", options->output_path,
                 {"PATH",
                  "file for the report: .txt, .json, .html, .svg (streams or memory over time), "
                  ".pftrace (for Perfetto)"});
  command.option(
      "--folded", options->folded,
      {"FILE",
       "writes folded stacks for flamegraph.pl or speedscope: nanoseconds of the typical "
       "step by phase, module and operation; of a snapshot, bytes at the peak by frames"});
  declare_output_options(command, options->output);
  command.alone("--sql", {"FILE", "--json", "--quiet", "--color"});
  command.examples({{"shardscope report trace.json.gz", "span = compute + exposed + idle, by rank"},
                    {"shardscope report ranks/ --definitions hta -o report.html",
                     "all ranks of a folder as one page, by the rules of HolisticTraceAnalysis"},
                    {"shardscope report memory.pickle -o memory.svg",
                     "peaks of memory, their owners, and a picture of memory over time"},
                    {"shardscope report trace.json.gz --folded time.folded",
                     "device time by module, for flame graphs"},
                    {"shardscope report runs/a -o a.pftrace", "a run for ui.perfetto.dev"},
                    {"shardscope report runs/a --sql \"select name, sum(duration_ns) / 1e6 as ms "
                     "from spans group by name order by ms desc limit 5\"",
                     "the five longest operations"}});
  command.action([options] { return run_report(*options); });
}

}  // namespace shardscope
