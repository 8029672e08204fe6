#include "cli/trace_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "backend/train/stop_request.h"
#include "cli/progress_line.h"
#include "core/base/error.h"
#include "core/base/quantities.h"
#include "core/base/utf8.h"
#include "traces/import/imported_runs.h"

namespace shardscope {
namespace {

/// Names and places of processes and threads are not what they did.
bool is_metadata_alone(const ImportedTrace& trace) {
  constexpr char metadata = 'M';
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (trace.events.phase[i] != metadata) return false;
  return true;
}

template <class Value>
void take(std::vector<Value>& from, std::vector<Value>& into) {
  into.insert(into.end(), std::make_move_iterator(from.begin()),
              std::make_move_iterator(from.end()));
}

void take_all(Imported from, Imported& into) {
  take(from.traces, into.traces);
  take(from.snapshots, into.snapshots);
  take(from.timelines, into.timelines);
  take(from.left_out, into.left_out);
}

}  // namespace

void require_events(const Imported& imported, const std::filesystem::path& from) {
  const bool is_empty = std::ranges::all_of(imported.traces, is_metadata_alone);
  if (!is_empty || !imported.snapshots.empty() || !imported.timelines.empty()) return;
  throw Error({.where = from.string(),
               .what = "holds no event",
               .way_out = "record with torch.profiler and write it with export_chrome_trace"});
}

void note_several_runs(const Imported& imported, const OutputOptions& output) {
  const auto runs = runs_of(imported.traces);
  if (runs.size() < 2) return;
  std::vector<std::string> names;
  for (const auto& run : runs) names.push_back(printable(imported.traces[run.front()].file));
  output.note(
      fmt::format("the traces are of {} runs ({}), and are numbered as if they were ranks "
                  "of one; give one run at a time",
                  runs.size(), fmt::join(names, ", ")));
}

Imported read_traces(const std::vector<std::filesystem::path>& files, const OutputOptions& output) {
  const StopRequest stop;
  ProgressLine line(output);
  Imported all;
  std::optional<Error> first_problem;
  for (const std::filesystem::path& file : files) {
    ImportOptions options;
    options.progress = [&, name = file.filename().string()](const ImportedTrace&,
                                                            std::int64_t file_bytes) {
      line.update(fmt::format("{}: {}", name, rounded_text(Bytes{file_bytes})));
      return stop.asked();
    };
    try {
      take_all(import_files(file, options), all);
    } catch (const Error& error) {
      std::error_code ignored;
      const bool is_there = std::filesystem::exists(file, ignored);
      if (files.size() == 1 || error.code() != ExitCode::bad_input || !is_there) throw;
      all.left_out.emplace_back(error.what());
      if (!first_problem) first_problem = error;
    }
  }
  if (first_problem && all.traces.empty() && all.snapshots.empty() && all.timelines.empty())
    throw *first_problem;
  if (stop.asked()) throw Error({.what = "stopped", .code = ExitCode::interrupted});
  return all;
}

}  // namespace shardscope
