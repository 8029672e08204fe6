#include "gui/data/find_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "gui/data/open_run.h"
#include "traces/import/file_format.h"
#include "traces/import/text_input.h"
#include "traces/run_folder.h"
#include "traces/summary.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t sniffed_bytes = std::size_t{1} << 18;
constexpr std::array trace_suffixes{".json", ".gz", ".tar", ".tgz", ".pickle", ".pkl", ".sqlite"};

bool is_named_like_a_trace(const fs::path& path) {
  return std::find(trace_suffixes.begin(), trace_suffixes.end(), path.extension()) !=
         trace_suffixes.end();
}

/// The decompressed bytes that a file begins with; none of what is no file or cannot be read.
std::string first_bytes(const fs::path& path) {
  try {
    PeekedInput input(decompressed(open_bytes(path)));
    return std::string(input.peek(sniffed_bytes));
  } catch (const Error&) {
    return {};
  }
}

class Finder {
 public:
  explicit Finder(std::stop_token stop) : stop_(std::move(stop)) {}

  void look_into(const fs::path& folder, int depth) {
    if (stop_.stop_requested() || is_full()) return;
    ++looked_into_;
    if (is_run_folder(folder)) {
      found_.runs.push_back(folder);
      return;
    }
    const TraceFiles traces = trace_files(folder, stop_);
    if (!traces.files.empty())
      found_.traces.push_back(folder);
    else  // else they are told when it is opened
      found_.findings.insert(found_.findings.end(), traces.findings.begin(), traces.findings.end());
    const std::vector<fs::path> inner = folders_of(folder);
    if (depth == deepest_folder) return tell_deeper(folder, inner.size());
    for (const fs::path& next : inner) look_into(next, depth + 1);
  }

  FoundFolders finish(const fs::path& folder) {
    if (is_full())
      found_.findings.push_back(
          {Severity::warning, folder.string(),
           fmt::format("only {} of the folders in it were looked into", looked_into_)});
    return std::move(found_);
  }

 private:
  bool is_full() const {
    return looked_into_ >= most_folders || found_.runs.size() + found_.traces.size() >= most_files;
  }

  void tell_deeper(const fs::path& folder, std::size_t count) {
    if (count == 0) return;
    found_.findings.push_back(
        {Severity::note, folder.string(),
         fmt::format("{} folders in it lie deeper than {} and were not looked into", count,
                     deepest_folder)});
  }

  static std::vector<fs::path> folders_of(const fs::path& folder) {
    std::vector<fs::path> inner;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const bool is_hidden = entry.path().filename().string().starts_with('.');
      if (!is_hidden && !entry.is_symlink(ignored) && entry.is_directory(ignored))
        inner.push_back(entry.path());
      if (inner.size() >= most_folders) break;
    }
    std::sort(inner.begin(), inner.end());
    return inner;
  }

  std::stop_token stop_;
  FoundFolders found_;
  std::size_t looked_into_ = 0;
};

struct TimedRun {
  fs::path path;
  Duration step_time;
};

/// Rounds of one run: everything that was set is equal.
struct Rounds {
  std::string settings;
  std::string label;
  std::vector<TimedRun> runs;
};

/// What the job's file says, but for where it is written; empty where there is none.
std::string job_settings(const fs::path& path) {
  if (!is_there(path)) return {};
  std::string text;
  for (const auto& [key, value] : JsonValue::read_file(path).members())
    if (key != "output") text += fmt::format("{}={};", key, value.dump());
  return text;
}

/// Two measurements of one machine differ in figures: of the hardware its name counts.
std::string hardware_name(const fs::path& path) {
  return is_there(path) ? JsonValue::read_file(path).at("name").string() : std::string();
}

std::string digest_of(const fs::path& file) {
  return is_there(file) ? fmt::format("{:x}", std::hash<std::string>{}(read_whole(file))) : "";
}

/// Of the copies of files that options named.
std::string digests_below(const fs::path& folder) {
  std::vector<std::string> digests;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored))
      digests.push_back(entry->path().lexically_relative(folder).string() + "=" +
                        digest_of(entry->path()));
  }
  std::sort(digests.begin(), digests.end());
  return fmt::format("{}", fmt::join(digests, ";"));
}

/// A job names its copies in the run folder alike, whatever they hold.
std::string settings_of(const RunFolder& folder, const Summary& summary) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", summary.runtime, summary.precision, label_of(summary),
                     hardware_name(folder.hardware()), job_settings(folder.job()),
                     digest_of(folder.config()), digests_below(folder.settings()));
}

/// A run that cannot be read is like no other.
Rounds rounds_of(const fs::path& path) {
  const RunFolder folder{path};
  try {
    const bool is_profiled = is_there(folder.summary());
    const Summary summary =
        read_summary(is_profiled ? folder.summary() : folder.predicted_summary());
    const std::string kind = is_profiled ? "" : ", predicted";
    return {.settings = settings_of(folder, summary) + kind,
            .label = label_of(summary) + kind,
            .runs = {{path, summary.step_time}}};
  } catch (const Error&) {
    return {.settings = path.string(), .label = path.string(), .runs = {{path, {}}}};
  }
}

ChosenRun median_of(Rounds alike) {
  std::stable_sort(alike.runs.begin(), alike.runs.end(),
                   [](const TimedRun& a, const TimedRun& b) { return a.step_time < b.step_time; });
  const std::size_t middle = (alike.runs.size() - 1) / 2;
  ChosenRun chosen{.path = alike.runs[middle].path, .findings = {}};
  if (alike.runs.size() == 1) return chosen;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < alike.runs.size(); ++i)
    if (i != middle)
      others.push_back(fmt::format("{} ({})", alike.runs[i].path.string(),
                                   rounded_text(alike.runs[i].step_time)));
  chosen.findings.push_back(
      {Severity::note, chosen.path.string(),
       fmt::format("median by step time ({}) of {} runs of {}; the others: {}",
                   rounded_text(alike.runs[middle].step_time), alike.runs.size(), alike.label,
                   fmt::join(others, ", "))});
  return chosen;
}

}  // namespace

bool is_trace_file(const fs::path& path) {
  std::error_code ignored;
  if (!is_named_like_a_trace(path) || !fs::is_regular_file(path, ignored)) return false;
  const std::string bytes = first_bytes(path);
  if (bytes.empty()) return false;
  switch (file_format(bytes)) {
    case FileFormat::chrome_trace:
    case FileFormat::memory_timeline:
    case FileFormat::memory_snapshot:
    case FileFormat::nsight:
    case FileFormat::tar:
      return true;
    default:
      return false;
  }
}

bool is_own_trace(const fs::path& path) {
  return first_bytes(path).find("\"shardscope\": {\"version\"") != std::string::npos;
}

TraceFiles trace_files(const fs::path& folder, const std::stop_token& stop) {
  std::vector<fs::path> named;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (stop.stop_requested()) return {};
    if (is_named_like_a_trace(entry.path())) named.push_back(entry.path());
  }
  std::sort(named.begin(), named.end());
  TraceFiles found;
  if (named.size() > most_files) {
    found.findings.push_back(
        {Severity::warning, folder.string(),
         fmt::format("the first {} of {} files in it were looked at", most_files, named.size())});
    named.resize(most_files);
  }
  for (const fs::path& path : named) {
    if (stop.stop_requested()) break;
    if (is_trace_file(path)) found.files.push_back(path);
  }
  return found;
}

FoundFolders find_folders(const fs::path& folder, const std::stop_token& stop) {
  Finder finder(stop);
  finder.look_into(folder, 0);
  return finder.finish(folder);
}

std::vector<ChosenRun> median_runs(const std::vector<fs::path>& runs) {
  std::vector<Rounds> all;
  for (const fs::path& path : runs) {
    Rounds one = rounds_of(path);
    const auto same = std::ranges::find(all, one.settings, &Rounds::settings);
    if (same == all.end())
      all.push_back(std::move(one));
    else
      same->runs.push_back(one.runs.front());
  }
  std::vector<ChosenRun> chosen;
  for (Rounds& alike : all) chosen.push_back(median_of(std::move(alike)));
  return chosen;
}

}  // namespace shardscope::gui
