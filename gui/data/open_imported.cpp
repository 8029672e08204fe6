#include "gui/data/open_imported.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "gui/data/find_runs.h"
#include "gui/data/import_findings.h"
#include "gui/data/open_run.h"
#include "gui/data/predict_settings.h"
#include "gui/data/trace_times.h"
#include "traces/import/import.h"
#include "traces/import/imported_runs.h"
#include "traces/import/imported_spans.h"
#include "traces/import/imported_summary.h"
#include "traces/import/trace_report.h"
#include "traces/match/matched_trace.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

std::int64_t size_of(const fs::path& path) {
  std::error_code ignored;
  const auto size = fs::file_size(path, ignored);
  return ignored ? 0 : static_cast<std::int64_t>(size);
}

template <class Value>
void take(std::vector<Value>& from, std::vector<Value>& into) {
  into.insert(into.end(), std::make_move_iterator(from.begin()),
              std::make_move_iterator(from.end()));
}

/// Reads files one after the other, so that what is told of the progress names each.
class FilesReader {
 public:
  FilesReader(std::vector<fs::path> files, const OpenOptions& options)
      : files_(std::move(files)), options_(options) {
    for (const fs::path& file : files_) all_bytes_ += size_of(file);
  }

  Imported read() {
    for (const fs::path& file : files_) {
      if (options_.stop.stop_requested()) break;
      read_one(file);
      behind_bytes_ += size_of(file);
    }
    if (result_.traces.empty() && result_.snapshots.empty() && result_.timelines.empty() &&
        problem_)
      throw *problem_;
    sort_by_rank();
    return std::move(result_);
  }

 private:
  void read_one(const fs::path& file) {
    ImportOptions reading;
    reading.progress = [&](const ImportedTrace&, std::int64_t file_bytes) {
      tell(file, behind_bytes_ + file_bytes);
      return options_.stop.stop_requested();
    };
    tell(file, behind_bytes_);
    try {
      Imported one = import_files(file, reading);
      take(one.traces, result_.traces);
      take(one.snapshots, result_.snapshots);
      take(one.timelines, result_.timelines);
      take(one.left_out, result_.left_out);
    } catch (const Error& error) {
      if (error.code() == ExitCode::interrupted) throw;
      if (!problem_) problem_ = error;
      result_.left_out.emplace_back(error.what());
    }
  }

  void tell(const fs::path& file, std::int64_t bytes) const {
    if (!options_.on_progress || all_bytes_ == 0) return;
    const double share = static_cast<double>(bytes) / static_cast<double>(all_bytes_);
    options_.on_progress(std::min(1.0, share), file.string());
  }

  void sort_by_rank() {
    const auto place = [](const ImportedTrace& trace) {
      return std::tuple(trace.rank.value_or(std::numeric_limits<int>::max()), trace.file);
    };
    std::stable_sort(
        result_.traces.begin(), result_.traces.end(),
        [&](const ImportedTrace& a, const ImportedTrace& b) { return place(a) < place(b); });
  }

  std::vector<fs::path> files_;
  const OpenOptions& options_;
  std::int64_t all_bytes_ = 0, behind_bytes_ = 0;
  Imported result_;
  std::optional<Error> problem_;
};

/// Of memory alone.
Summary memory_summary(const std::vector<MemoryReport>& memory) {
  Summary summary{.kind = TraceKind::imported, .strategy = "imported", .runtime = "pytorch"};
  for (const MemoryReport& report : memory) {
    if (!report.peak_allocated) continue;
    summary.memory.peak_allocated = *report.peak_allocated;
    summary.memory.peak_active = report.peak_active.value_or(*report.peak_allocated);
    summary.memory.peak_reserved = report.peak_reserved.value_or(summary.memory.peak_active);
    break;
  }
  return summary;
}

template <class Value>
std::vector<std::shared_ptr<const Value>> shared(std::vector<Value> values) {
  std::vector<std::shared_ptr<const Value>> result;
  for (Value& value : values) result.push_back(std::make_shared<const Value>(std::move(value)));
  return result;
}

bool has_device(const ImportedTrace& trace) {
  return std::any_of(trace.tracks.begin(), trace.tracks.end(),
                     [](const ImportedTrack& track) { return track.kind == TrackKind::stream; });
}

/// What was read as a side. `memory`: of its snapshots and timelines.
Side side_of(Imported imported, const std::vector<MemoryReport>& memory, const fs::path& path) {
  Side side{.kind = SideKind::profiled, .source = path};
  std::vector<ImportedRank> ranks = run_ranks(imported.traces);
  if (ranks.empty()) {
    side.summary = memory_summary(memory);
  } else {
    const ImportedRank& first = ranks.front();
    side.summary = imported_summary(imported.traces[first.trace], first.spans, report_of(imported));
  }
  const auto traces = shared(std::move(imported.traces));
  for (ImportedRank& rank : ranks) {
    side.imported.push_back(traces[rank.trace]);
    side.ranks.push_back(std::make_shared<const Trace>(has_device(*side.imported.back())
                                                           ? std::move(rank.spans)
                                                           : as_device(std::move(rank.spans))));
  }
  side.snapshots = shared(std::move(imported.snapshots));
  side.timelines = shared(std::move(imported.timelines));
  return side;
}

SideMatch match_of(const Side& predicted, const Side& profiled, const std::stop_token& stop) {
  const Trace& trace = *predicted.ranks.front();
  std::optional<Runtime> runtime;
  if (predicted.summary)
    runtime = parse_runtime(predicted.summary->runtime, predicted.source.string());
  SideMatch result;
  for (const auto& imported : profiled.imported) {
    if (stop.stop_requested()) break;
    result.ranks.push_back(match(trace, *imported, runtime));
    result.matched.push_back(
        std::make_shared<const Trace>(matched_trace(trace, *imported, result.ranks.back())));
  }
  return result;
}

/// The profiled side takes on what only the prediction says of the run.
void lay(Scenario& scenario, const std::stop_token& stop) {
  Side& profiled = *scenario.profiled;
  const Side& predicted = *scenario.predicted;
  if (predicted.ranks.empty() || profiled.imported.empty()) return;
  scenario.match = match_of(predicted, profiled, stop);
  if (predicted.summary && profiled.summary) {
    profiled.summary->strategy = predicted.summary->strategy;
    profiled.summary->runtime = predicted.summary->runtime;
    profiled.summary->precision = predicted.summary->precision;
  }
  scenario.findings.push_back({Severity::note, predicted.source.string(),
                               fmt::format("all ranks are laid beside rank {}, which was predicted",
                                           predicted.ranks.front()->rank)});
}

/// The folder's own prediction, or one that is made from a settings.json beside the traces.
void add_prediction(Scenario& scenario, const fs::path& path, const std::vector<fs::path>& files,
                    const OpenOptions& options) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  const RunFolder run{folder};
  const fs::path settings = folder / "settings.json";
  try {
    if (is_there(run.predicted_summary()))
      scenario.predicted = read_predicted(run, scenario.findings);
    else if (is_there(settings) && !scenario.profiled->imported.empty())
      scenario.predicted = predict_settings(settings, files.front(), scenario.findings, options);
    if (scenario.predicted) lay(scenario, options.stop);
  } catch (const Error& error) {
    scenario.predicted.reset();
    scenario.findings.push_back({Severity::error, settings.string(), error.what()});
  }
}

std::string name_of(const fs::path& path) {
  const fs::path whole = path.has_filename() ? path : path.parent_path();
  return whole.filename().string();
}

/// How many characters two names begin with alike.
std::ptrdiff_t common_start(const std::string& a, const std::string& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

/// The run whose first file's name is most like this one.
Imported& nearest_by_name(std::vector<Imported>& runs, const std::string& file) {
  return *std::max_element(runs.begin(), runs.end(), [&](const Imported& a, const Imported& b) {
    return common_start(a.traces.front().file, file) < common_start(b.traces.front().file, file);
  });
}

/// Each run by itself; memory goes with the trace whose file is named most like its own. What was
/// left out is told of the first.
std::vector<Imported> by_run(Imported all) {
  const std::vector<std::vector<std::size_t>> indices = runs_of(all.traces);
  std::vector<Imported> runs;
  if (indices.size() < 2) {
    runs.push_back(std::move(all));
    return runs;
  }
  for (const std::vector<std::size_t>& run : indices) {
    runs.emplace_back();
    for (const std::size_t i : run) runs.back().traces.push_back(std::move(all.traces[i]));
  }
  for (MemorySnapshot& snapshot : all.snapshots)
    nearest_by_name(runs, snapshot.file).snapshots.push_back(std::move(snapshot));
  for (MemoryTimeline& timeline : all.timelines)
    nearest_by_name(runs, timeline.file).timelines.push_back(std::move(timeline));
  runs.front().left_out = std::move(all.left_out);
  return runs;
}

/// The file that holds the first trace, for whoever needs only one.
std::vector<fs::path> trace_first(std::vector<fs::path> files, const Imported& imported) {
  if (imported.traces.empty()) return files;
  const std::string name = imported.traces.front().file;
  std::stable_partition(files.begin(), files.end(),
                        [&](const fs::path& file) { return file.filename() == name; });
  return files;
}

}  // namespace

std::vector<ScenarioPointer> open_imported(const fs::path& path, const OpenOptions& options) {
  std::error_code ignored;
  TraceFiles found{.files = {path}, .findings = {}};
  if (fs::is_directory(path, ignored)) found = trace_files(path, options.stop);
  if (options.stop.stop_requested())
    throw Error({.where = path.string(), .what = "stopped", .code = ExitCode::interrupted});
  std::vector<fs::path> files = std::move(found.files);
  if (files.empty())
    throw Error({.where = path.string(),
                 .what = found.findings.empty() ? "neither a run nor a trace is in it"
                                                : "no trace found: " + found.findings[0].what,
                 .way_out = "give a folder that `shardscope train` or `shardscope simulate -o` "
                            "left, or traces of PyTorch's profiler"});
  std::vector<Imported> runs = by_run(FilesReader(files, options).read());
  std::vector<ScenarioPointer> scenarios;
  for (Imported& run : runs) {
    auto scenario = std::make_shared<Scenario>();
    scenario->path = path;
    scenario->label = name_of(path);
    if (runs.size() > 1) {
      scenario->path = path / run.traces.front().file;
      scenario->label += "/" + run.traces.front().file;
    }
    const std::vector<MemoryReport> memory = memory_reports(run);
    scenario->findings = import_findings(run, memory);
    if (scenarios.empty())
      scenario->findings.insert(scenario->findings.begin(), found.findings.begin(),
                                found.findings.end());
    files = trace_first(std::move(files), run);
    scenario->profiled = side_of(std::move(run), memory, scenario->path);
    if (!options.stop.stop_requested()) add_prediction(*scenario, path, files, options);
    if (scenario->predicted && scenario->predicted->summary)
      scenario->label += ": " + label_of(*scenario->predicted->summary);
    scenarios.push_back(std::move(scenario));
  }
  return scenarios;
}

ScenarioPointer lay_beside(const Scenario& imported, const Scenario& predicted,
                           const std::stop_token& stop) {
  if (!imported.profiled || imported.profiled->imported.empty())
    throw Error({.where = imported.label, .what = "has no trace of another tool"});
  if (!predicted.predicted || !predicted.predicted->has_trace())
    throw Error({.where = predicted.label, .what = "has no prediction with a trace"});
  auto scenario = std::make_shared<Scenario>(imported);
  scenario->predicted = predicted.predicted;
  lay(*scenario, stop);
  measure_times(*scenario);
  return scenario;
}

}  // namespace shardscope::gui
