// shardscope model: parameters, modules, units, shards.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/model_report.h"
#include "cli/model_text.h"
#include "cli/output_options.h"
#include "cli/sharding_options.h"
#include "cli/verb.h"

namespace shardscope {
namespace {

struct ModelCommand {
  std::optional<std::string> model;
  JobOptions job;
  ShardingOptions sharding;
  PlaceOptions place;
  OutputOptions output;
  std::optional<std::string> transformers;
  bool modules = false;

  ModelOptions model_options() const {
    const std::string version = transformers.value_or("5");
    return {.transformers = parse_transformers_version(version, "--transformers")};
  }
};

/// Whether anything is said about how the native runtime is to shard.
bool asks_for_shards(const ModelCommand& command) {
  const JobOptions& job = command.job;
  return job.strategy || job.mesh || job.wrap || command.place.world || command.sharding.runtime;
}

/// By the native runtime's rules, or the model alone where it cannot run the model and nothing was
/// asked of it.
ModelReport native_report(const ModelCommand& command) {
  NativeScenario scenario =
      resolve_native_scenario(command.job, command.place, command.model_options());
  if (scenario.model.decoder) return report_native(std::move(scenario));
  if (!asks_for_shards(command))
    return report_model(std::move(scenario.model), scenario.workload.optimizer, {});
  throw Error({.where = command.job.model.value_or("model"),
               .what = fmt::format("the native runtime cannot run {}: {}",
                                   scenario.model.class_name, scenario.model.why_no_decoder),
               .way_out = "give --runtime fsdp1, fsdp2, ddp or deepspeed"});
}

/// By the rules of one of the real runtimes.
ModelReport runtime_report(const ModelCommand& command) {
  JobOptions job = command.job;
  job.strategy = job.mesh = job.wrap = job.precision =
      std::nullopt;  // the runtime's, not the native one's
  Model model = trained_model(job_of(job), command.model_options());
  std::vector<std::string> assumed;
  ShardingPlan plan =
      plan_of(model, runtime_choice(model, command.sharding, command.job, command.place, assumed));
  return {.model = std::move(model),
          .whole = plan.whole,
          .plan = std::move(plan),
          .assumed = std::move(assumed)};
}

ExitCode run_model(ModelCommand options) {
  if (options.model) options.job.model = options.model;
  const ModelReport answer =
      options.sharding.other_than_native() ? runtime_report(options) : native_report(options);
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
  const auto options = std::make_shared<ModelCommand>();
  command.positional("MODEL", options->model,
                     "Hugging Face folder or config.json, our export, safetensors or their index");
  declare_job_options(command, options->job);
  declare_native_training(command);
  command.option("--transformers", options->transformers,
                 {"4|5", "whose layout the model has; 5 unless given"});
  declare_sharding_options(command, options->sharding);
  declare_place_options(command, options->place);
  declare_output_options(command, options->output);
  command.flag("--modules", options->modules, "lists the module tree too");
  command.examples(
      {{"shardscope model examples/models/gpt2", "parameters, and what one rank holds of them"},
       {"shardscope model examples/models/gpt2 --strategy full_shard --world 8 --wrap "
        "size:20000000",
        "units, shards and padding on 8 ranks"},
       {"shardscope model examples/models/qwen2_5_0_5b --accelerate examples/configs/fsdp_v1.yaml",
        "what `accelerate launch` with that file makes of it"},
       {"shardscope model examples/models/bert_base_uncased --runtime deepspeed --strategy zero1 "
        "--world 8",
        "the same by DeepSpeed's rules, at its defaults"},
       {"shardscope model examples/models/gpt2 --json | jq .totals", "the same for scripts"}});
  command.action([options] { return run_model(*options); });
}

}  // namespace shardscope
