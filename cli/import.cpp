// shardscope import: traces of other tools become a run folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/train/stop_request.h"
#include "cli/import_target.h"
#include "cli/output_options.h"
#include "cli/trace_input.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "traces/chrome_writer.h"
#include "traces/import/import.h"
#include "traces/import/imported_spans.h"
#include "traces/import/imported_summary.h"
#include "traces/import/trace_report.h"
#include "traces/run_folder.h"

namespace shardscope {
namespace {

struct ImportVerbOptions {
  std::vector<std::string> files;
  std::optional<std::string> folder, memory;
  bool one_run = false;
  OutputOptions output;
};

void note_files(const Imported& imported, const OutputOptions& output) {
  const auto note = [&](const auto& values) {
    for (const auto& value : values) {
      output.note(fmt::format("{}: {} of {} events", value.file, value.report.events_kept,
                              value.report.events_read));
    }
  };
  note(imported.traces);
  note(imported.snapshots);
  note(imported.timelines);
  for (const std::string& reason : imported.left_out) output.note("left out: " + reason);
}

/// Ranks as the files say, or where they do not, in the order they were given.
void number_ranks(std::vector<ImportedTrace>& traces, const OutputOptions& output) {
  std::vector<std::optional<int>> said;
  for (const ImportedTrace& trace : traces) said.push_back(trace.rank);
  const std::vector<int> ranks = ranks_of(said);
  bool as_said = true;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    as_said = as_said && traces[i].rank == ranks[i];
    traces[i].rank = ranks[i];
  }
  if (!as_said && traces.size() > 1)
    output.note(
        "the files do not each name a rank of its own: numbered in the order they were given");
}

[[noreturn]] void interrupted() {
  throw Error(
      {.where = {}, .what = "interrupted; nothing was left", .code = ExitCode::interrupted});
}

/// Returns the number of ranks.
std::size_t write_run(const RunFolder& folder, const Imported& imported, const TraceReport& report,
                      const StopRequest& stop) {
  const std::vector<ImportedRank> run = run_ranks(imported.traces);
  for (const ImportedRank& rank : run) {
    if (stop.asked()) interrupted();
    write_chrome_trace(rank.spans, folder.trace(rank.spans.rank));
  }
  if (!run.empty()) {
    const auto& [from, spans] = run.front();
    write_summary(imported_summary(imported.traces[from], spans, report), "import",
                  folder.summary());
  }
  write_atomically(folder.root / "report.json", to_json(report));
  if (stop.asked()) interrupted();
  return run.size();
}

ExitCode run_import(const ImportVerbOptions& options) {
  if (options.files.empty())
    throw Error({.where = "FILE", .what = "no trace was given", .way_out = "give one or more"});
  const std::filesystem::path folder = options.folder.value_or("imported");
  ImportTarget target(folder, options.files);
  Imported imported = read_traces({options.files.begin(), options.files.end()}, options.output,
                                  {.most = trace_memory(options.memory), .converts = true});
  require_events(imported, options.files.front());
  // Files that are named one by one are said to be of one run.
  const bool are_named = options.files.size() > 1;
  if (!are_named && !options.one_run) refuse_several_runs(imported, options.files.front());
  if (const std::string runs = several_runs_text(imported); !runs.empty() && !options.one_run)
    options.output.note("by what they say, the traces are of " + runs);
  note_files(imported, options.output);
  number_ranks(imported.traces, options.output);
  const StopRequest stop;
  const TraceReport report = report_of(imported);
  const std::size_t ranks = write_run(target.files(), imported, report, stop);
  target.publish();
  if (options.output.json) print(to_json(report));
  const std::string what =
      ranks > 0 ? fmt::format("{} rank(s)", ranks) : "memory only, and no trace: report.json";
  options.output.note(fmt::format("{} in {}", what, folder.string()));
  return ExitCode::done;
}

}  // namespace

void declare_import(Command& command) {
  const auto options = std::make_shared<ImportVerbOptions>();
  command.positionals(
      "FILE", options->files,
      "traces of PyTorch's profiler or Nsight Systems, memory snapshots and timelines: "
      "files, archives or folders, one rank or more");
  command.heading("Import");
  command.option("-o", options->folder, {"PATH", "run folder (default: imported)"});
  command.flag("--one-run", options->one_run,
               "takes all traces of a folder for ranks of one run, whatever they say");
  declare_memory_option(command, options->memory);
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope import rank*.json.gz -o runs/theirs",
        "device activity and steps of every rank, a summary and a report in a run folder"}});
  command.action([options] { return run_import(*options); });
}

}  // namespace shardscope
