// PyTorch profiler traces of small sharded trainings: what a plain reading of each file gives.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/kineto_figures.h"
#include "tests/recordings/kineto_match.h"
#include "tests/recordings/recordings.h"
#include "tests/recordings/timeline_figures.h"
#include "traces/gzip.h"
#include "traces/import/import.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> compared_fields{"ranks",
                                               "file",
                                               "bytes",
                                               "header",
                                               "rank",
                                               "start_ns",
                                               "end_ns",
                                               "window_ns",
                                               "threads",
                                               "flows",
                                               "steps",
                                               "memory",
                                               "collectives",
                                               "transport",
                                               "annotations",
                                               "events_by_ph_and_cat",
                                               "execution_traces",
                                               "memory_timelines",
                                               "match"};

std::filesystem::path golden_path(const std::filesystem::path& folder) {
  const auto plain = folder / "golden.json";
  return std::filesystem::exists(plain) ? plain : folder / "golden.json.gz";
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory() && std::filesystem::exists(golden_path(entry.path())))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Json golden(const std::filesystem::path& folder) {
  std::string text = read_whole(golden_path(folder));
  if (is_gzip(text)) text = gunzip(text, std::int64_t{1} << 30, folder.string());
  return Json::parse(text);
}

std::string ranks_difference(const std::filesystem::path& folder, Json expected,
                             const Options& options) {
  Json got = Json::array();
  for (const ImportedTrace& trace : import_traces(folder)) got.push_back(rank_json(trace));
  for (Json* ranks : {&expected, &got}) {
    for (Json& rank : *ranks) {
      for (const std::string& field : options.except) rank.erase(field);
    }
  }
  return json_difference("ranks", expected, got);
}

/// Of one of the other files, by the name that the recording gives it.
std::string file_difference(const std::filesystem::path& folder, const std::string& part,
                            const Json& expected) {
  const auto path = folder / expected.at("file").get<std::string>();
  if (part == "memory_timelines")
    return json_difference(part, expected, memory_timelines_json(path));
  if (part == "execution_traces") return json_difference(part, expected, execution_json(path));
  throw Error({.where = path.string(), .what = "no reader of " + part});
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  const Json expected = golden(folder / name);
  Outcome outcome;
  for (const auto& [part, values] : expected.items()) {
    if (options.leaves_out(part)) continue;
    if (part == "ranks") outcome.difference = ranks_difference(folder / name, values, options);
    for (const Json& value : values) {
      if (part == "ranks" || !outcome.difference.empty()) break;
      outcome.difference = file_difference(folder / name, part, value);
    }
    if (!outcome.difference.empty()) break;
  }
  const auto settings = folder / name / "settings.json";
  const bool matches = !options.leaves_out("match") && std::filesystem::exists(settings);
  if (outcome.difference.empty() && matches)
    outcome.difference = match_difference(settings, import_traces(folder / name));
  return outcome;
}

}  // namespace

Kind kineto_kind() {
  return {.name = "kineto", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
