#include "traces/measured/metric_log.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "traces/measured/metric_formats.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
constexpr std::size_t most_files = 256;
constexpr int most_depth = 5;

bool is_log_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.find(".tfevents.") != name.npos || path.extension() == ".wandb";
}

std::vector<fs::path> logs_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry.depth() >= most_depth) entry.disable_recursion_pending();
    if (entry->is_regular_file(error) && is_log_name(entry->path())) files.push_back(entry->path());
    if (files.size() > most_files)
      throw Error({.where = folder.string(),
                   .what = "more than 256 logs",
                   .way_out = "give the folder of one run"});
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string_view name_of(MetricFormat format) {
  switch (format) {
    case MetricFormat::tensorboard:
      return "tensorboard";
    case MetricFormat::wandb:
      return "wandb";
    case MetricFormat::nvidia_smi:
      return "nvidia-smi";
    case MetricFormat::slurm:
      return "slurm";
    case MetricFormat::unknown:
      break;
  }
  return "unknown";
}

bool MetricCollector::add(std::string_view name, const MetricPoint& point) {
  if (!std::isfinite(point.value) || (point.time_s && !std::isfinite(*point.time_s))) return true;
  if (points_ >= limits_.points) return false;
  auto place = places_.find(name);
  if (place == places_.end()) {
    if (series_.size() >= limits_.series) return false;
    place = places_.emplace(std::string(name), series_.size()).first;
    series_.push_back({.name = std::string(name), .points = {}});
  }
  series_[place->second].points.push_back(point);
  ++points_;
  return true;
}

std::vector<MetricSeries> MetricCollector::take() { return std::move(series_); }

MetricFormat metric_format(std::string_view first_bytes) {
  if (is_wandb_file(first_bytes)) return MetricFormat::wandb;
  if (is_event_file(first_bytes)) return MetricFormat::tensorboard;
  if (is_sacct(first_bytes)) return MetricFormat::slurm;
  if (is_smi_log(first_bytes)) return MetricFormat::nvidia_smi;
  return MetricFormat::unknown;
}

MetricLog read_metric_log(std::string_view bytes, const std::string& file) {
  constexpr std::size_t sniffed = 4096;
  MetricLog log;
  switch (metric_format(bytes.substr(0, sniffed))) {
    case MetricFormat::tensorboard:
      log = read_event_file(bytes, file);
      break;
    case MetricFormat::wandb:
      log = read_wandb_file(bytes, file);
      break;
    case MetricFormat::nvidia_smi:
      log = read_smi_log(bytes, file);
      break;
    case MetricFormat::slurm:
      log = read_sacct(bytes, file);
      break;
    case MetricFormat::unknown:
      throw Error({.where = file,
                   .what = "no event file of TensorBoard, no .wandb file, no CSV of nvidia-smi "
                           "with its header line, and "
                           "no output of sacct",
                   .way_out = "give one of these; traces go to --trace"});
  }
  if (log.series.empty())
    throw Error({.where = file,
                 .what = std::string(name_of(log.format)) + " logged no number in it" +
                         (log.notes.empty() ? "" : " (" + log.notes.front() + ")")});
  return log;
}

std::vector<MetricLog> read_metric_logs(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return {read_metric_log(read_whole(path, most_bytes), path.string())};
  std::vector<MetricLog> logs;
  std::string why;
  for (const fs::path& file : logs_in(path)) {
    try {
      logs.push_back(read_metric_log(read_whole(file, most_bytes), file.string()));
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_input) throw;
      why = error.what();  // an event file without scalars is usual beside others
    }
  }
  if (logs.empty())
    throw Error(
        {.where = path.string(),
         .what = why.empty()
                     ? "holds neither an event file of TensorBoard (*.tfevents.*) nor a .wandb file"
                     : why,
         .way_out = "give the folder of a run, or a file"});
  return logs;
}

}  // namespace shardscope
