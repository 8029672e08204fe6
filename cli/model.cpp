// shardscope model: parameters, modules, units, shards.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/model_report.h"
#include "cli/model_text.h"
#include "cli/output_options.h"
#include "cli/verb.h"

namespace shardscope {
namespace {

struct ModelOptions {
  std::optional<std::string> model;
  JobOptions job;
  PlaceOptions place;
  OutputOptions output;
  bool modules = false;
};

/// Whether anything is said about how the native runtime is to shard.
bool asks_for_shards(const ModelOptions& options) {
  const JobOptions& job = options.job;
  return job.strategy || job.mesh || job.wrap || options.place.world;
}

ModelReport report(const ModelOptions& options) {
  Scenario scenario = resolve_scenario(options.job, options.place);
  if (scenario.model.decoder) return report_native(std::move(scenario));
  if (!asks_for_shards(options))
    return report_model(std::move(scenario.model), scenario.workload.optimizer,
                        std::move(scenario.assumed));
  throw Error({.where = options.job.model.value_or("model"),
               .what = fmt::format("the native runtime cannot run {}: {}",
                                   scenario.model.class_name, scenario.model.why_no_decoder),
               .way_out = "leave out --strategy, --mesh, --wrap and --world for the model alone"});
}

ExitCode run_model(ModelOptions options) {
  if (options.model) options.job.model = options.model;
  const ModelReport answer = report(options);
  if (options.output.json) {
    print(to_json(answer));
    return ExitCode::done;
  }
  note_assumptions(options.output, answer.assumed);
  print(text_of(answer, options.modules, options.output.painter()));
  return ExitCode::done;
}

}  // namespace

void declare_model(Command& command) {
  const auto options = std::make_shared<ModelOptions>();
  command.positional("MODEL", options->model, "Hugging Face folder or config.json");
  declare_job_options(command, options->job);
  declare_place_options(command, options->place);
  declare_output_options(command, options->output);
  command.flag("--modules", options->modules, "lists the module tree too");
  command.examples(
      {{"shardscope model examples/models/gpt2", "parameters, and what one rank holds of them"},
       {"shardscope model examples/models/gpt2 --strategy full_shard --world 8 --wrap "
        "size:20000000",
        "units, shards and padding on 8 ranks"},
       {"shardscope model examples/models/gpt2 --json | jq .totals", "the same for scripts"}});
  command.action([options] { return run_model(*options); });
}

}  // namespace shardscope
