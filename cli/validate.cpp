// shardscope validate: predictions of published runs beside what was measured.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "backend/train/stop_request.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/progress_line.h"
#include "cli/validation_report.h"
#include "cli/verb.h"
#include "core/format/atomic_file.h"
#include "core/format/csv_reader.h"
#include "sim/validate/published_machine.h"
#include "sim/validate/validation.h"

namespace shardscope {
namespace {

struct ValidateOptions {
  std::optional<std::string> file, report;
  std::optional<std::int64_t> row;
  bool every_row = false;
  OutputOptions output;
};

std::vector<PublishedRow> asked_rows(const ValidateOptions& options) {
  if (!options.file)
    throw Error({.where = "FILE",
                 .what = "no table of measured runs was given",
                 .way_out = "give a CSV; docs/cli.md lists its columns"});
  std::vector<PublishedRow> rows = published_rows(CsvTable::read_file(*options.file));
  share_networks(rows);
  if (!options.row) return rows;
  const auto last = static_cast<std::int64_t>(rows.size());
  if (*options.row < 1 || *options.row > last)
    throw Error(
        {.where = "--row", .what = fmt::format("expected 1 to {}, got {}", last, *options.row)});
  return {rows[static_cast<std::size_t>(*options.row - 1)]};
}

std::string answer(const ValidateOptions& options, const std::vector<ValidatedRow>& rows) {
  if (options.output.json) return validation_json(rows) + "\n";
  return validation_text(rows, options.every_row || options.row, options.output.painter());
}

ExitCode verdict(const std::vector<ValidatedRow>& rows) {
  const auto is_predicted = [](const ValidatedRow& row) { return row.predicted.has_value(); };
  return std::ranges::any_of(rows, is_predicted) ? ExitCode::done : ExitCode::no;
}

ExitCode run_validate(const ValidateOptions& options) {
  const std::vector<PublishedRow> rows = asked_rows(options);
  if (options.report) {
    refuse_over_input(*options.report, *options.file, "-o");
    require_writable(*options.report);
  }
  const StopRequest stop;
  std::vector<ValidatedRow> validated;
  {
    ProgressLine line(options.output);
    const int threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
    validated = validate_rows(rows, threads, [&](std::size_t done) {
      line.update(fmt::format("{} of {} rows", done, rows.size()));
      return !stop.asked();
    });
  }
  if (options.row && !options.output.json)
    note_assumptions(options.output, validated.front().assumed);
  print(answer(options, validated));
  if (options.report) write_atomically(*options.report, validation_json(validated) + "\n");
  if (validated.size() == rows.size()) return verdict(validated);
  options.output.note(fmt::format("interrupted: {} of {} rows", validated.size(), rows.size()));
  return ExitCode::interrupted;
}

}  // namespace

void declare_validate(Command& command) {
  const auto options = std::make_shared<ValidateOptions>();
  command.positional("FILE", options->file, "CSV of measured runs; columns are found by name");
  command.heading("Which");
  command.option("--row", options->row,
                 {"N", "only this row, with its assumptions; 1 is the first"});
  command.flag("--rows", options->every_row,
               "prints a line for every row before the errors by source");
  command.option("-o", options->report, {"PATH", "also writes the JSON to this file"});
  declare_output_options(command, options->output);
  command.examples(
      {{"shardscope validate runs.csv",
        "errors by source: mean, median, worst, order, coverage of the bands"},
       {"shardscope validate runs.csv --row 12", "one run, with everything that was assumed"}});
  command.action([options] { return run_validate(*options); });
}

}  // namespace shardscope
