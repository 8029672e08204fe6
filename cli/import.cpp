// shardscope import: traces of other tools become a run folder.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/output_options.h"
#include "cli/run_folder.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/format/atomic_file.h"
#include "traces/chrome_writer.h"
#include "traces/import/import.h"
#include "traces/import/imported_spans.h"
#include "traces/import/trace_report.h"

namespace shardscope {
namespace {

struct ImportVerbOptions {
  std::vector<std::string> files;
  std::optional<std::string> folder;
  OutputOptions output;
};

template <class Value>
void take(std::vector<Value>& from, std::vector<Value>& into, const OutputOptions& output) {
  for (Value& value : from) {
    output.note(fmt::format("{}: {} of {} events", value.file, value.report.events_kept,
                            value.report.events_read));
    into.push_back(std::move(value));
  }
}

Imported read_all(const ImportVerbOptions& options) {
  Imported all;
  for (const std::string& file : options.files) {
    Imported found = import_files(file);
    take(found.traces, all.traces, options.output);
    take(found.snapshots, all.snapshots, options.output);
    take(found.timelines, all.timelines, options.output);
    for (const std::string& reason : found.left_out) {
      options.output.note("left out: " + reason);
      all.left_out.push_back(reason);
    }
  }
  return all;
}

/// Ranks as the files say, or where they do not agree, in the order they were given.
void number_ranks(std::vector<ImportedTrace>& traces, const OutputOptions& output) {
  std::vector<bool> is_taken(traces.size());
  bool agree = true;
  for (const ImportedTrace& trace : traces) {
    const auto rank = static_cast<std::size_t>(trace.rank.value_or(0));
    agree = agree && trace.rank && rank < is_taken.size() && !is_taken[rank];
    if (agree) is_taken[rank] = true;
  }
  if (agree) return;
  output.note("the files do not name each rank once: numbered in the order they were given");
  for (std::size_t i = 0; i < traces.size(); ++i) traces[i].rank = static_cast<int>(i);
}

ExitCode run_import(const ImportVerbOptions& options) {
  if (options.files.empty())
    throw Error({.where = "FILE", .what = "no trace was given", .way_out = "give one or more"});
  Imported imported = read_all(options);
  std::vector<ImportedTrace>& traces = imported.traces;
  number_ranks(traces, options.output);
  const std::string report = to_json(report_of(imported));
  if (options.output.json) print(report);
  const RunFolder folder{options.folder.value_or("imported")};
  create_folder(folder.root);
  for (const ImportedTrace& trace : traces) {
    Trace spans = device_spans(trace);
    spans.world = static_cast<int>(traces.size());
    write_chrome_trace(spans, folder.trace(trace.rank.value_or(0)));
  }
  write_atomically(folder.root / "report.json", report);
  options.output.note(fmt::format("{} rank(s) in {}", traces.size(), folder.root.string()));
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
  command.option("-o", options->folder, {"PATH", "the run folder; imported if not given"});
  declare_output_options(command, options->output);
  command.examples({{"shardscope import rank*.json.gz -o runs/theirs",
                     "device activity, steps and a report of every rank in a run folder"}});
  command.action([options] { return run_import(*options); });
}

}  // namespace shardscope
