// shardscope fit: a profile of a real run corrects the hardware profile that predicted it.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/hardware_choice.h"
#include "cli/output_options.h"
#include "cli/output_path.h"
#include "cli/run_observations.h"
#include "cli/table.h"
#include "cli/trace_observations.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "sim/fit/fit.h"
#include "traces/import/import.h"
#include "traces/run_folder.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

struct FitOptions {
  std::vector<std::string> runs;
  std::optional<std::string> cluster, file;
  OutputOptions output;
};

bool is_run_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(RunFolder{path}.job(), ignored);
}

/// The profile that is corrected: the one asked for, else the one that the run's prediction used.
HardwareProfile profile_of(const FitOptions& options) {
  if (options.cluster) return require_hardware(options.cluster).profile;
  const RunFolder folder{options.runs.front()};
  std::error_code ignored;
  if (std::filesystem::exists(folder.hardware(), ignored))
    return read_hardware_profile(folder.hardware());
  throw Error({.where = options.runs.front(),
               .what = "has no hardware.json: there is no profile to correct",
               .way_out = "give the profile that is to be corrected with --cluster"});
}

struct Observations {
  RunObservations run;
  std::optional<TraceObservations> traces;  ///< of another program's run
};

Observations observe(const FitOptions& options, const HardwareProfile& profile) {
  if (is_run_folder(options.runs.front())) {
    if (options.runs.size() == 1) return {.run = observe_run({options.runs.front()}, profile)};
    throw Error({.where = options.runs[1],
                 .what = "one run folder is fitted at a time",
                 .way_out = "fit the next one to what this one leaves, with --cluster"});
  }
  if (profile.device != "cuda")
    throw Error({.where = options.runs.front(),
                 .what = fmt::format("is of a GPU, and the profile {} is of {}", profile.name,
                                     profile.device),
                 .way_out = "give a GPU's profile with --cluster"});
  std::vector<ImportedTrace> traces;
  for (const std::string& path : options.runs)
    for (ImportedTrace& trace : import_traces(path)) traces.push_back(std::move(trace));
  TraceObservations observed = observe_traces(traces);
  if (observed.ranks_are_missing)
    options.output.note(
        "not every rank's trace is there: what a collective took holds its waits for the others");
  const auto run = observed.run;
  return {.run = run, .traces = std::move(observed)};
}

Provenance provenance_of(const FitOptions& options) {
  return {.origin = Origin::measured,
          .source = fmt::format(
              "fitted to {}",
              std::filesystem::path(options.runs.front()).lexically_normal().filename().string()),
          .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))};
}

Json classes_json(const std::optional<TraceObservations>& traces) {
  if (!traces) return nullptr;
  Json json = Json::array();
  for (const auto& [kernel_class, time] : traces->by_class) {
    const auto used = traces->used.find(kernel_class);
    json.push_back({{"class", name_of(kernel_class)},
                    {"time_ns", time.ns},
                    {"used_ns", used == traces->used.end() ? 0 : used->second.ns}});
  }
  return json;
}

std::string json_text(const Fit& fit, const Observations& observed, const std::string& file) {
  Json constants = Json::array();
  for (const FittedConstant& constant : fit.constants)
    constants.push_back({{"name", constant.name},
                         {"was", constant.was},
                         {"is", constant.is},
                         {"factor", constant.factor},
                         {"timings", constant.timings}});
  const Json json{{"schema", "shardscope.fit/1"},
                  {"file", file.empty() ? Json(nullptr) : Json(file)},
                  {"profile", fit.profile.name},
                  {"constants", std::move(constants)},
                  {"residual_before_share", fit.residual_before},
                  {"residual_after_share", fit.residual_after},
                  {"held_out", fit.is_held_out},
                  {"kernel_classes", classes_json(observed.traces)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string human_text(const Fit& fit, const Observations& observed, const Painter& painter) {
  Table table({{"constant"},
               {"was", Align::right},
               {"is", Align::right},
               {"by", Align::right},
               {"timings", Align::right}});
  for (const FittedConstant& constant : fit.constants)
    table.row({constant.name, constant.was, constant.is,
               fmt::format("{:+.1f}%", (constant.factor - 1) * 100),
               fmt::format("{}", constant.timings)});
  std::string text = table.text(painter);
  text += fmt::format("\n{}: {:.1f}% of the time was predicted wrongly before, {:.1f}% is now\n",
                      fit.is_held_out ? "calls that the fit has not seen" : "the same calls",
                      fit.residual_before * 100, fit.residual_after * 100);
  if (!observed.traces) return text;
  for (const auto& [kernel_class, time] : observed.traces->by_class) {
    const auto used = observed.traces->used.find(kernel_class);
    if (used != observed.traces->used.end()) continue;
    text += fmt::format("{} of {} kernels was not used: the trace does not say their work\n",
                        rounded_text(time), name_of(kernel_class));
  }
  return text;
}

ExitCode run_fit(const FitOptions& options) {
  if (options.runs.empty())
    throw Error({.where = "RUN", .what = "no run was given", .way_out = "give one"});
  if (options.file) {
    std::vector<std::filesystem::path> inputs(options.runs.begin(), options.runs.end());
    refuse_over_contents(*options.file, inputs, "-o");
    if (options.cluster) inputs.emplace_back(*options.cluster);
    refuse_over_input(*options.file, inputs, "-o");
    const std::filesystem::path folder = std::filesystem::path(*options.file).parent_path();
    if (!folder.empty()) create_folder(folder);
    require_writable(*options.file);
  }
  const HardwareProfile profile = profile_of(options);
  const Observations observed = observe(options, profile);
  Fit fitted = fit(profile, observed.run, provenance_of(options));
  fitted.profile.source = fmt::format("{}; {} on {}", profile.source, provenance_of(options).source,
                                      provenance_of(options).date);
  if (options.file) write_atomically(*options.file, to_json(fitted.profile));
  print(options.output.json ? json_text(fitted, observed, options.file.value_or(""))
                            : human_text(fitted, observed, options.output.painter()));
  if (options.file) options.output.note(fmt::format("written to {}", *options.file));
  return ExitCode::done;
}

}  // namespace

void declare_fit(Command& command) {
  const auto options = std::make_shared<FitOptions>();
  command.positionals("RUN", options->runs,
                      "a run folder of train, or traces of PyTorch's profiler: a file a rank, an "
                      "archive or a folder");
  command.heading("Fit");
  command.option("--cluster", options->cluster,
                 {"FILE|NAME", "profile to correct (default: the one that predicted the run)"});
  command.option("-o", options->file,
                 {"FILE", "file for the corrected profile (default: none is written)"});
  declare_output_options(command, options->output);
  command.examples({{"shardscope fit runs/demo/full_shard -o fitted.json",
                     "corrects the profile that predicted this run, and says by how much"},
                    {"shardscope fit rank0.json.gz rank1.json.gz --cluster h100_sxm -o ours.json",
                     "corrects a data sheet's figures with PyTorch traces of two ranks"}});
  command.action([options] { return run_fit(*options); });
}

}  // namespace shardscope
