#include "gui/data/open_scenarios.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "gui/data/find_runs.h"
#include "gui/data/open_imported.h"
#include "gui/data/open_plan.h"
#include "gui/data/open_run.h"
#include "gui/data/open_trace.h"
#include "gui/data/trace_times.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;
using Scenarios = std::vector<ScenarioPointer>;

/// What `options` tells of, as a part of the whole.
OpenOptions part_of(const OpenOptions& options, std::size_t place, std::size_t count) {
  if (!options.on_progress) return options;
  return {.stop = options.stop,
          .on_progress = [told = options.on_progress, place, count](double share,
                                                                    const std::string& what) {
            told((static_cast<double>(place) + share) / static_cast<double>(count), what);
          }};
}

bool has_foreign_trace(const fs::path& folder, const std::stop_token& stop) {
  const std::vector<fs::path> files = trace_files(folder, stop).files;
  return !std::all_of(files.begin(), files.end(), is_own_trace);
}

/// The run, and its windows behind it. A prediction alone beside traces of others is theirs.
Scenarios run_and_windows(const fs::path& path, const OpenOptions& options) {
  if (!is_there(RunFolder{path}.summary()) && has_foreign_trace(path, options.stop))
    return open_imported(path, options);
  Scenarios all{open_run(path, options)};
  Scenarios windows = open_windows(*all.front(), options);
  all.insert(all.end(), windows.begin(), windows.end());
  return all;
}

/// Opens one after the other. What cannot be opened is a finding of the others; nothing opened:
/// the first reason.
class OneByOne {
 public:
  OneByOne(const OpenOptions& options, std::size_t count) : options_(options), count_(count) {}

  template <class Open>
  void open(const std::vector<Finding>& findings, const Open& how) {
    const OpenOptions part = part_of(options_, place_++, count_);
    if (options_.stop.stop_requested()) return;
    try {
      Scenarios opened = how(part);
      if (!opened.empty() && !findings.empty()) opened.front() = with(opened.front(), findings);
      all_.insert(all_.end(), opened.begin(), opened.end());
    } catch (const Error& error) {
      if (error.code() == ExitCode::interrupted) return;
      problems_.push_back({Severity::error, error.parts().where, error.what()});
      if (problems_.size() == 1) first_problem_ = error;
    }
  }

  Scenarios finish(std::vector<Finding> findings) {
    if (all_.empty() && first_problem_) throw *first_problem_;
    findings.insert(findings.end(), problems_.begin(), problems_.end());
    if (!all_.empty() && !findings.empty()) all_.front() = with(all_.front(), findings);
    return std::move(all_);
  }

 private:
  static ScenarioPointer with(const ScenarioPointer& scenario,
                              const std::vector<Finding>& findings) {
    auto more = std::make_shared<Scenario>(*scenario);
    more->findings.insert(more->findings.begin(), findings.begin(), findings.end());
    return more;
  }

  const OpenOptions& options_;
  std::size_t count_, place_ = 0;
  Scenarios all_;
  std::vector<Finding> problems_;
  std::optional<Error> first_problem_;
};

Scenarios open_folder(const fs::path& folder, const OpenOptions& options) {
  FoundFolders found = find_folders(folder, options.stop);
  if (options.stop.stop_requested()) return {};
  const std::vector<ChosenRun> runs = median_runs(found.runs);
  std::size_t count = runs.size() + found.traces.size();
  if (count == 0) return open_imported(folder, options);
  if (count > most_scenarios) {
    found.findings.push_back(
        {Severity::warning, folder.string(),
         fmt::format("{} of the {} scenarios in it were opened", most_scenarios, count)});
    count = most_scenarios;
  }
  OneByOne all(options, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i < runs.size())
      all.open(runs[i].findings,
               [&](const OpenOptions& part) { return run_and_windows(runs[i].path, part); });
    else
      all.open({}, [&](const OpenOptions& part) {
        return open_imported(found.traces[i - runs.size()], part);
      });
  }
  return all.finish(std::move(found.findings));
}

void tell_figures(const FoundPlan& plan, const OpenOptions& options) {
  if (!options.on_figures) return;
  Scenarios figures;
  try {
    for (const FoundPlace& place : plan.places)
      figures.push_back(with_place(open_figures(place.run), place));
  } catch (const Error&) {
    return;  // reading it whole says why
  }
  if (plan.given) figures.push_back(plan.given);
  options.on_figures(figures);
}

struct ReadPlace {
  ScenarioPointer run;  ///< null: not read
  std::optional<Error> problem;
};

/// Traces are read side by side.
std::vector<ReadPlace> read_places(const fs::path& folder, const FoundPlan& plan,
                                   const OpenOptions& options) {
  constexpr unsigned most_threads = 4;
  const std::size_t count = plan.places.size();
  std::vector<ReadPlace> read(count);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t done = 0;
  const auto tell = [&] {
    if (options.on_progress)
      options.on_progress(static_cast<double>(done) / static_cast<double>(count),
                          fmt::format("{}: {} of {} places", folder.string(), done, count));
  };
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !options.stop.stop_requested(); i = next++) {
      try {
        read[i].run = open_run(plan.places[i].run, {.stop = options.stop});
        measure_times(*read[i].run);
      } catch (const Error& error) {
        read[i].problem = error;
      }
      const std::lock_guard lock(mutex);
      ++done;
      tell();
    }
  };
  tell();
  std::vector<std::future<void>> others;
  const std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
  for (std::size_t i = 1; i < std::min(threads, count); ++i)
    others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  return read;
}

/// Its places, the best first; strategies that are on none are findings of it.
Scenarios open_plan(const fs::path& folder, const OpenOptions& options) {
  FoundPlan plan = find_plan(folder);
  tell_figures(plan, options);
  const std::vector<ReadPlace> read = read_places(folder, plan, options);
  const OpenOptions silent{.stop = options.stop};  // it is read already
  OneByOne all(silent, read.size());
  for (std::size_t i = 0; i < read.size(); ++i)
    all.open({}, [&](const OpenOptions&) -> Scenarios {
      if (read[i].problem) throw *read[i].problem;
      if (!read[i].run) return {};
      return {with_place(read[i].run, plan.places[i])};
    });
  Scenarios scenarios = all.finish(std::move(plan.findings));
  if (plan.given) scenarios.push_back(plan.given);
  return scenarios;
}

/// The run folder that a file of ours lies in: beside it or, of predicted/, above.
std::optional<fs::path> run_of_file(const fs::path& file) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(file, ignored).lexically_normal().parent_path();
  if (is_run_folder(folder)) return folder;
  if (folder.filename() == "predicted" && is_run_folder(folder.parent_path()))
    return folder.parent_path();
  return std::nullopt;
}

Scenarios open_file(const fs::path& file, const OpenOptions& options) {
  const bool is_own = is_own_trace(file);
  if (is_own || !is_trace_file(file)) {
    if (const auto run = run_of_file(file)) return run_and_windows(*run, options);
    if (is_window_folder(file.parent_path()))
      return {open_window_folder(file.parent_path(), options)};
  }
  if (is_own) return {open_own_trace(file)};
  return open_imported(file, options);
}

Scenarios open_path(const fs::path& path, const OpenOptions& options) {
  std::error_code ignored;
  if (!is_there(path)) throw Error({.where = path.string(), .what = "is not there"});
  if (const auto plan = plan_folder_of(path)) return open_plan(*plan, options);
  if (!fs::is_directory(path, ignored)) return open_file(path, options);
  if (is_run_folder(path)) return run_and_windows(path, options);
  if (is_window_folder(path)) return {open_window_folder(path, options)};
  return open_folder(path, options);
}

}  // namespace

Scenarios open_scenarios(const fs::path& path, const OpenOptions& options) {
  Scenarios opened = open_path(path, options);
  for (const ScenarioPointer& scenario : opened) {
    if (options.stop.stop_requested()) break;
    measure_times(*scenario);
  }
  return opened;
}

}  // namespace shardscope::gui
