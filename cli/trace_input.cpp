#include "cli/trace_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "backend/train/stop_request.h"
#include "cli/progress_line.h"
#include "core/base/error.h"
#include "core/base/grouped.h"
#include "core/base/quantities.h"
#include "core/base/utf8.h"
#include "traces/import/device_activity.h"
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

/// Memory of this process that lies in the machine's. Source: Linux, /proc/self/statm.
Bytes resident() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0, pages = 0;
  statm >> size >> pages;
  return Bytes{pages} * sysconf(_SC_PAGESIZE);
}

/// Ends a reading before its events, and what is made of them, take more than is allowed.
class MemoryLimit {
 public:
  explicit MemoryLimit(TraceMemory memory) : memory_(memory) {}

  /// To be called every few MiB.
  void check(const ImportedTrace& trace) {
    // Files of several folders may have one name.
    if (trace.file != file_ || trace.events.size() < counted_) {
      file_ = trace.file;
      counted_ = 0;
      of_devices_.clear();
    }
    for (; counted_ < trace.events.size(); ++counted_) {
      const std::uint16_t category = trace.events.category[counted_];
      while (of_devices_.size() <= category)
        of_devices_.push_back(is_of_devices(trace.categories[of_devices_.size()]));
      activities_ += of_devices_[category] ? 1 : 0;
    }
    const auto events = static_cast<std::int64_t>(counted_);
    const std::int64_t later = events * laid_out_bytes + activities_ * activity_bytes +
                               (memory_.converts ? events * std::int64_t{sizeof(Span)} : 0);
    const Bytes foreseen = resident() + Bytes{later};
    if (foreseen <= memory_.most) return;
    throw Error({.where = printable(file_),
                 .what = fmt::format("{} events so far take {} of memory with what is made of them",
                                     grouped(events), rounded_text(foreseen)),
                 .way_out = fmt::format("allow more than {} with --memory, or profile fewer steps",
                                        rounded_text(memory_.most))});
  }

 private:
  static constexpr std::int64_t laid_out_bytes = 4;  ///< ImportedTrace::by_track
  /// DeviceActivity, and indices in orders of several kinds.
  static constexpr std::int64_t activity_bytes = sizeof(DeviceActivity) + 4 * sizeof(std::uint32_t);

  std::string file_;
  TraceMemory memory_;
  std::size_t counted_ = 0;       ///< events of this file
  std::int64_t activities_ = 0;   ///< of all files
  std::vector<bool> of_devices_;  ///< by category of this file
};

}  // namespace

void declare_memory_option(Command& command, std::optional<std::string>& memory) {
  command.option("--memory", memory,
                 {"BYTES", "what large traces may take of this machine (default: 1 GiB)"});
}

Bytes trace_memory(const std::optional<std::string>& memory) {
  if (!memory) return TraceMemory{}.most;
  const Bytes most = parse_bytes(*memory, "--memory");
  constexpr Bytes least = 32_MiB;
  if (most < least)
    throw Error({.where = "--memory",
                 .what = fmt::format("expected at least {}, got {}", rounded_text(least), *memory),
                 .way_out = "give an amount such as \"4 GiB\""});
  return most;
}

void require_events(const Imported& imported, const std::filesystem::path& from) {
  const bool is_empty = std::ranges::all_of(imported.traces, is_metadata_alone);
  if (!is_empty || !imported.snapshots.empty() || !imported.timelines.empty()) return;
  throw Error({.where = from.string(),
               .what = "holds no event",
               .way_out = "record with torch.profiler and write it with export_chrome_trace"});
}

std::string several_runs_text(const Imported& imported) {
  const auto runs = runs_of(imported.traces);
  if (runs.size() < 2) return {};
  constexpr std::size_t most_named = 5;
  std::vector<std::string> names;
  for (const auto& run : runs)
    if (names.size() < most_named) names.push_back(printable(imported.traces[run.front()].file));
  return fmt::format("{} runs ({}{})", runs.size(), fmt::join(names, ", "),
                     runs.size() > most_named ? ", ..." : "");
}

void refuse_several_runs(const Imported& imported, const std::filesystem::path& from) {
  const std::string runs = several_runs_text(imported);
  if (runs.empty()) return;
  throw Error({.where = from.string(),
               .what = "holds traces of " + runs,
               .way_out = "give the file or folder of one, or --one-run where they are ranks of "
                          "one run"});
}

Imported read_traces(const std::vector<std::filesystem::path>& files, const OutputOptions& output,
                     TraceMemory memory) {
  const StopRequest stop;
  ProgressLine line(output);
  Imported all;
  MemoryLimit limit(memory);
  std::optional<Error> first_problem;
  for (const std::filesystem::path& file : files) {
    ImportOptions options;
    options.progress = [&, name = file.filename().string()](const ImportedTrace& trace,
                                                            std::int64_t file_bytes) {
      limit.check(trace);
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
