// Traces that others recorded: the figures of golden.json, to the nanosecond.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/recordings/json_difference.h"
#include "tests/recordings/recordings.h"
#include "tests/recordings/timeline_figures.h"
#include "tests/recordings/trace_figures.h"
#include "traces/import/import.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> compared_fields{"base_ns",
                                               "rank",
                                               "world_size",
                                               "events",
                                               "times_rounded",
                                               "events_by_ph_and_cat",
                                               "cpu",
                                               "trace_window_ns",
                                               "steps",
                                               "process_groups",
                                               "collectives_on_kernels",
                                               "record_param_comms",
                                               "memory",
                                               "devices",
                                               "rows",
                                               "first_ns",
                                               "last_ns",
                                               "times_going_back",
                                               "peak_bytes",
                                               "peak_row",
                                               "peak_ns",
                                               "final_bytes",
                                               "by_category",
                                               "rows_by_action_and_category",
                                               "schema",
                                               "nvtx",
                                               "processes"};

Json golden(const std::filesystem::path& folder) {
  return Json::parse(read_whole(folder / "golden.json"));
}

std::vector<std::string> cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const Json& trace : golden(folder)) names.push_back(trace.at("file").get<std::string>());
  return names;
}

Json expected_of(const std::filesystem::path& folder, const std::string& name) {
  for (Json& trace : golden(folder)) {
    if (trace.at("file") == name) return std::move(trace);
  }
  throw Error({.where = name, .what = "is not in golden.json"});
}

/// "ranks.tar.gz:rank0.json" is a file within an archive.
Json kineto_figures(const std::filesystem::path& folder, const std::string& name) {
  for (const ImportedTrace& trace : import_traces(folder / name.substr(0, name.find(':')))) {
    if (trace.file == name) return kineto_json(trace);
  }
  throw Error({.where = name, .what = "is not among the traces of its file"});
}

Json figures_of(const std::filesystem::path& folder, const std::string& name,
                const std::string& format) {
  if (format == "memory_timeline") return memory_timeline_json(folder / name);
  if (format == "nsight") return nsight_json(import_traces(folder / name).front());
  if (format == "kineto") return kineto_figures(folder, name);
  throw Error({.where = name, .what = fmt::format("no reader of \"{}\"", format)});
}

Outcome check(const std::filesystem::path& folder, const std::string& name,
              const Options& options) {
  Json expected = expected_of(folder, name);
  Json got = figures_of(folder, name, expected.at("format").get<std::string>());
  expected.erase("file");
  expected.erase("format");
  for (const std::string& field : options.except) {
    expected.erase(field);
    got.erase(field);
  }
  return {.difference = json_difference("trace", expected, got), .worst_share = {}, .worst = {}};
}

}  // namespace

Kind traces_kind() {
  return {.name = "traces", .fields = compared_fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
