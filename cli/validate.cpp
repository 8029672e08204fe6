// shardscope validate: predictions of published runs beside what was measured.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "backend/train/stop_request.h"
#include "cli/fine_tuning_report.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/progress_line.h"
#include "cli/validation_report.h"
#include "cli/verb.h"
#include "core/format/atomic_file.h"
#include "core/format/csv_reader.h"
#include "sim/validate/fine_tuning_validation.h"
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

CsvTable table_of(const ValidateOptions& options) {
  if (!options.file)
    throw Error({.where = "FILE",
                 .what = "no table of measured runs was given",
                 .way_out = "give a CSV; docs/cli.md lists its columns"});
  return CsvTable::read_file(*options.file);
}

/// All of them, or the one that --row asks for.
template <class Row>
std::vector<Row> asked_of(std::vector<Row> rows, const ValidateOptions& options) {
  if (!options.row) return rows;
  const auto last = static_cast<std::int64_t>(rows.size());
  if (*options.row < 1 || *options.row > last)
    throw Error(
        {.where = "--row", .what = fmt::format("expected 1 to {}, got {}", last, *options.row)});
  return {rows[static_cast<std::size_t>(*options.row - 1)]};
}

std::vector<PublishedRow> asked_rows(const CsvTable& table, const ValidateOptions& options) {
  std::vector<PublishedRow> rows = published_rows(table);
  share_networks(rows);
  return asked_of(std::move(rows), options);
}

std::string answer(const ValidateOptions& options, const std::vector<ValidatedRow>& rows) {
  if (options.output.json) return validation_json(rows) + "\n";
  return validation_text(rows, options.every_row || options.row, options.output.painter());
}

template <class Row>
ExitCode verdict(const std::vector<Row>& rows) {
  const auto is_predicted = [](const Row& row) { return row.predicted.has_value(); };
  return std::ranges::any_of(rows, is_predicted) ? ExitCode::done : ExitCode::no;
}

ExitCode validate_memory(const CsvTable& table, const ValidateOptions& options) {
  const std::vector<FineTuningRow> rows = asked_of(fine_tuning_rows(table), options);
  const StopRequest stop;
  std::vector<ValidatedFineTuning> validated;
  {
    ProgressLine line(options.output);
    validated = validate_rows(rows, [&](std::size_t done) {
      line.update(fmt::format("{} of {} rows", done, rows.size()));
      return !stop.asked();
    });
  }
  if (options.row && !options.output.json)
    note_assumptions(options.output, validated.front().assumed);
  print(options.output.json ? fine_tuning_json(validated) + "\n"
                            : fine_tuning_text(validated, options.every_row || options.row,
                                               options.output.painter()));
  if (options.report) write_atomically(*options.report, fine_tuning_json(validated) + "\n");
  if (validated.size() == rows.size()) return verdict(validated);
  options.output.note(fmt::format("interrupted: {} of {} rows", validated.size(), rows.size()));
  return ExitCode::interrupted;
}

ExitCode run_validate(const ValidateOptions& options) {
  const CsvTable table = table_of(options);
  if (options.report) {
    refuse_over_input(*options.report, *options.file, "-o");
    require_writable(*options.report);
  }
  if (is_fine_tuning_table(table)) return validate_memory(table, options);
  const std::vector<PublishedRow> rows = asked_rows(table, options);
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
