// shardscope model: parameters, modules, units, shards.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/model_estimate.h"
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
  std::optional<std::string> transformers, estimate;
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
  // The runtime's, not the native one's.
  for (auto* option : {&job.strategy, &job.mesh, &job.wrap, &job.precision}) option->reset();
  Model model = trained_model(job_of(job), command.model_options());
  std::vector<std::string> assumed;
  ShardingPlan plan =
      plan_of(model, runtime_choice(model, command.sharding, command.job, command.place, assumed));
  const auto whole = plan.whole;
  return {.model = std::move(model),
          .whole = whole,
          .plan = std::move(plan),
          .assumed = std::move(assumed)};
}

/// One node unless --ranks-per-node says otherwise.
EstimatorCluster estimator_cluster(const ModelCommand& command) {
  const std::int64_t world = command.place.world.value_or(1);
  const std::int64_t per_node = command.sharding.ranks_per_node.value_or(world);
  if (world < 1 || world > 1 << 20 || per_node < 1 || world % per_node != 0)
    throw Error({.where = "--world",
                 .what = fmt::format("{} ranks are no whole nodes of {}", world, per_node),
                 .way_out = "give a multiple of --ranks-per-node"});
  return {.gpus_per_node = static_cast<int>(per_node), .nodes = static_cast<int>(world / per_node)};
}

ExitCode run_estimate(const ModelCommand& command) {
  const EstimateTool tool = estimate_tool_of(*command.estimate);
  ModelOptions as_loaded = command.model_options();
  as_loaded.dtype = Dtype::float32;
  const Job job = job_of(command.job);
  const EstimateQuestion question{.tool = tool,
                                  .name = command.job.model.value_or(job.model.string()),
                                  .model = trained_model(job, as_loaded),
                                  .cluster = estimator_cluster(command)};
  print(command.output.json ? estimate_json(question)
                            : estimate_text(question, command.output.painter()));
  return ExitCode::done;
}

ExitCode run_model(ModelCommand options) {
  if (options.model) options.job.model = options.model;
  if (options.estimate) return run_estimate(options);
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
                 {"4|5", "version whose layout the model has (default: 5)"});
  declare_sharding_options(command, options->sharding);
  declare_place_options(command, options->place);
  declare_output_options(command, options->output);
  command.flag("--modules", options->modules, "lists the module tree too");
  command.option(
      "--estimate", options->estimate,
      {"accelerate|deepspeed",
       "prints the memory that `accelerate estimate-memory` or DeepSpeed's estimators state"});
  command.examples(
      {{"shardscope model examples/models/gpt2", "parameters, and the part that one rank holds"},
       {"shardscope model examples/models/gpt2 --strategy full_shard --world 8 --wrap "
        "size:20000000",
        "units, shards and padding on 8 ranks"},
       {"shardscope model examples/models/qwen2_5_0_5b --accelerate examples/configs/fsdp_v1.yaml",
        "units and shards of `accelerate launch` with that file"},
       {"shardscope model examples/models/bert_base_uncased --runtime deepspeed --strategy zero1 "
        "--world 8",
        "the same by DeepSpeed's rules, at its defaults"},
       {"shardscope model examples/models/gpt2 --estimate deepspeed --world 8",
        "what DeepSpeed estimates for ZeRO-2 and ZeRO-3 on one node of 8 GPUs"},
       {"shardscope model examples/models/gpt2 --json | jq .totals", "the same for scripts"}});
  command.action([options] { return run_model(*options); });
}

}  // namespace shardscope
