// shardscope simulate: time and memory of one strategy, predicted.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/figures.h"
#include "cli/hardware_choice.h"
#include "cli/output_options.h"
#include "cli/peak_explanation.h"
#include "cli/prediction.h"
#include "cli/scenario.h"
#include "cli/summary_text.h"
#include "cli/verb.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

struct SimulateOptions {
  JobOptions job;
  PlaceOptions place;
  OutputOptions output;
  std::optional<std::string> cluster, folder;
  bool explain = false;
};

std::string headline(const Scenario& scenario, const HardwareChoice& hardware) {
  const Precision precision = scenario.strategy.precision;
  const std::string in =
      precision == Precision::fp32 ? std::string() : fmt::format(", {}", name_of(precision));
  return fmt::format("{} of {} on {} rank{} ({}), batch {} x {} tokens{}",
                     name_of(scenario.strategy.sharding), scenario.model.class_name, scenario.world,
                     scenario.world == 1 ? "" : "s", text_of(scenario.strategy.mesh),
                     scenario.workload.batch, scenario.workload.length, in) +
         fmt::format("\nhardware: {} ({})", hardware.profile.name, hardware.profile.source);
}

void leave_in(const RunFolder& folder, const Prediction& prediction, const Scenario& scenario,
              const HardwareProfile& profile) {
  create_folder(folder.root);
  write_atomically(folder.job(), to_json(scenario.job));
  write_atomically(folder.hardware(), to_json(profile));
  write_prediction(prediction, "simulate", folder);
  write_figures(
      {&prediction.trace}, {nullptr},
      fmt::format("{} on {} ranks, predicted", prediction.summary.strategy, scenario.world),
      folder);
}

ExitCode run_simulate(const SimulateOptions& options) {
  const HardwareChoice hardware = require_hardware(options.cluster);
  const Scenario scenario = resolve_scenario(options.job, options.place);
  const Prediction prediction = predict(scenario, hardware.profile);
  if (options.folder) leave_in({*options.folder}, prediction, scenario, hardware.profile);
  if (options.output.json) {
    print(to_json(prediction.summary, "simulate") + "\n");
  } else {
    const Painter painter = options.output.painter();
    note_assumptions(options.output, scenario.assumed);
    print(painter(Paint::bold, headline(scenario, hardware)) + "\n\n");
    print(options.explain ? explain_peak(prediction.schedule, painter)
                          : summary_text(prediction.summary, painter));
  }
  if (options.folder) options.output.note(fmt::format("left in {}", *options.folder));
  return prediction.summary.fits ? ExitCode::done : ExitCode::no;
}

}  // namespace

void declare_simulate(Command& command) {
  const auto options = std::make_shared<SimulateOptions>();
  declare_job_options(command, options->job);
  declare_native_only(command);
  declare_place_options(command, options->place);
  command.option("--cluster", options->cluster,
                 {"FILE|NAME", "hardware profile; unless given, what calibrate measured here"});
  declare_output_options(command, options->output);
  command.flag("--explain", options->explain, "shows what lives at the peak instead");
  command.option("-o", options->folder,
                 {"PATH", "leaves summary, trace and pictures in a run folder"});
  command.examples({{"shardscope simulate --model examples/models/gpt2 --world 8 --batch 4 --seq "
                     "1024 --cluster h100_sxm",
                     "full_shard on one node of eight GPUs"},
                    {"shardscope simulate --job job.json --strategy zero1 --explain",
                     "what lives at the peak of a job under ZeRO-1"},
                    {"shardscope simulate --job job.json -o runs/predicted --json",
                     "the figures for scripts, the pictures in a folder"}});
  command.action([options] { return run_simulate(*options); });
}

}  // namespace shardscope
