#include "sim/planner/written_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/config/values/config_json.h"
#include "core/config/yaml/yaml_writer.h"
#include "core/native/pipeline_stages.h"

namespace shardscope::planner {
namespace {

ConfigFormat format_of(Runtime runtime) {
  if (runtime == Runtime::deepspeed) return ConfigFormat::deepspeed;
  return runtime == Runtime::fsdp1 ? ConfigFormat::accelerate_v1 : ConfigFormat::accelerate_v2;
}

std::string mixed_precision(TrainingPrecision precision) {
  if (precision == TrainingPrecision::bf16_mixed) return "bf16";
  return precision == TrainingPrecision::fp16_mixed ? "fp16" : "no";
}

PortableWrap wrap_of(const Choice& choice) {
  if (choice.runtime == Runtime::ddp || choice.blocks_per_unit == 0) return {};
  return {.policy = WrapPolicy::transformer};
}

int machines_of(int world, const WrittenFrom& from) {
  return std::max(1, world / std::min(world, from.ranks_per_node));
}

PortableStrategy portable(const Choice& choice, const WrittenFrom& from) {
  const int world = choice.mesh.world();
  PortableStrategy strategy{.sharding = choice.sharding,
                            .world = world,
                            .machines = machines_of(world, from),
                            .shard_group = is_hybrid(choice.sharding) ? choice.mesh.shard : 0,
                            .mixed_precision = mixed_precision(choice.precision),
                            .wrap = wrap_of(choice),
                            .activation_checkpointing =
                                choice.checkpointing.every == 1 && !choice.checkpointing.selective,
                            .forward_prefetch = choice.prefetch == Prefetch::both,
                            .micro_batch = choice.batch,
                            .accumulation = choice.micro_batches};
  if (choice.offload != Offload::none) strategy.offload_optimizer = OffloadDevice::cpu;
  if (choice.offload == Offload::all) strategy.offload_parameters = OffloadDevice::cpu;
  if (choice.runtime == Runtime::ddp) strategy.state_dict = StateDict::full;
  if (choice.runtime == Runtime::fsdp1) {
    strategy.use_original_parameters = keeps_original_parameters(from.model);
    if (choice.prefetch == Prefetch::none || choice.prefetch == Prefetch::post)
      strategy.backward_prefetch =
          choice.prefetch == Prefetch::none ? BackwardPrefetch::none : BackwardPrefetch::post;
  }
  if (choice.runtime == Runtime::deepspeed) {
    strategy.wrap = deepspeed_wrap();
    if (from.job.clip > 0) strategy.clip = from.job.clip;
    if (strategy.sharding == ShardingStrategy::zero1 ||
        strategy.sharding == ShardingStrategy::shard_grad_op)
      strategy.state_dict = StateDict::full;
  }
  return strategy;
}

OwnSetting of_deepspeed(std::string key, ConfigValue value) {
  return {.tool = ConfigTool::deepspeed, .key = std::move(key), .value = std::move(value)};
}

/// accelerate compiles the model, or each of its blocks. Source: accelerate 1.15 accelerator.py,
/// prepare_model.
void add_compilation(CompileScope scope, PortableStrategy& strategy) {
  if (scope == CompileScope::none) return;
  ConfigValue dynamo = ConfigValue::dict();
  dynamo.set("dynamo_backend", ConfigValue("INDUCTOR"));
  if (scope == CompileScope::blocks || scope == CompileScope::blocks_and_loss)
    dynamo.set("dynamo_use_regional_compilation", ConfigValue(true));
  strategy.own.push_back({.tool = ConfigTool::accelerate,
                          .key = "dynamo_config",
                          .value = std::move(dynamo),
                          .why = "belongs to the script: torch.compile"});
}

void add_own(const Choice& choice, PortableStrategy& strategy) {
  if (choice.runtime != Runtime::deepspeed) return;
  const bool overlaps = choice.prefetch != Prefetch::none;
  strategy.own.push_back(of_deepspeed("zero_optimization.overlap_comm", ConfigValue(overlaps)));
  if (!overlaps && zero_stage(choice.sharding) == 3)
    strategy.own.push_back(of_deepspeed("zero_optimization.stage3_prefetch_bucket_size",
                                        ConfigValue(std::int64_t{0})));
}

/// FSDP1 shards inside a node unless it is given groups.
bool needs_process_groups(const Choice& choice, const WrittenFrom& from) {
  return choice.runtime == Runtime::fsdp1 && is_hybrid(choice.sharding) &&
         choice.mesh.shard != from.ranks_per_node;
}

/// The file has all blocks or none.
bool is_of_the_script(const eager::CheckpointChoice& checkpointing) {
  return checkpointing.every > 1 || checkpointing.selective;
}

/// What no key of the file says, and memory depends on.
std::vector<Loss> memory_losses(const Choice& choice, const WrittenFrom& from) {
  std::vector<Loss> losses;
  if (needs_process_groups(choice, from))
    losses.push_back(
        {fmt::format("a grid of {} x {} ranks", choice.mesh.replicate, choice.mesh.shard),
         "belongs to the script: FSDP1 shards inside a node unless it is given "
         "process groups"});
  if (is_of_the_script(choice.checkpointing))
    losses.push_back({fmt::format("checkpointing {}", text_of(choice.checkpointing)),
                      "belongs to the script: the file has all blocks or none"});
  if (choice.reduces_every_micro_batch)
    losses.push_back({"gradients reduced in every micro-batch",
                      "belongs to the script: GradientAccumulationPlugin(sync_each_batch=True)"});
  return losses;
}

/// What of the choice no key of the file says.
std::vector<Loss> choice_losses(const Choice& choice, const WrittenFrom& from) {
  std::vector<Loss> losses = memory_losses(choice, from);
  if (choice.blocks_per_unit > 1)
    losses.push_back({fmt::format("units of {} blocks", choice.blocks_per_unit),
                      "belong to the script: fully_shard takes a list of modules"});
  return losses;
}

/// What no key of the file says.
std::vector<Loss> beyond_the_file(const Choice& choice, const WrittenFrom& from) {
  std::vector<Loss> losses = choice_losses(choice, from);
  if (from.compiled == CompileScope::blocks_and_loss)
    losses.push_back({"compiled loss", "belongs to the script: torch.compile of its loss"});
  if (from.float8 != eager::parallel::Float8Recipe::none)
    losses.push_back({fmt::format("float8 {}", name_of(from.float8)),
                      "belongs to the script: torchao's convert_to_float8_training"});
  if (choice.precision == TrainingPrecision::bf16)
    losses.push_back({"bf16", "belongs to the script: from_pretrained(dtype=torch.bfloat16)"});
  return losses;
}

/// Stands for the folder that a job will lie in: what is inside it is written relative to it.
const std::filesystem::path folder_of_job = "/folder of the job";

WrittenChoice job_of(const Choice& choice, const WrittenFrom& from) {
  Job job = from.job;
  job.model = std::filesystem::absolute(job.model).lexically_normal();
  job.strategy = native_strategy(choice, from.model);
  job.pipeline = choice.pipeline;
  job.precision_given = true;
  job.batch = choice.batch;
  job.accumulate = choice.micro_batches;
  job.ranks = choice.mesh.world();
  WrittenChoice written{.file = "job.json", .format = "job"};
  if (job.data.empty()) {
    job.data = {folder_of_job / "data"};
    written.losses.push_back(
        {"data", "names a folder beside the job: put text there, or its path"});
  }
  written.text = to_json(job, folder_of_job);
  return written;
}

/// One list of modules for each stage.
std::string modules_of_stages(const Choice& choice, const Model& model) {
  const std::vector<int> layers =
      blocks_of_stages(model, choice.pipeline,
                       choice.mesh.pipeline * choice.pipeline.stages_per_rank, "--pipeline-stages");
  std::string text;
  int next = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::vector<std::string> modules;
    if (stage == 0) modules.emplace_back("\"tok_embeddings\"");
    for (int layer = 0; layer < layers[stage]; ++layer)
      modules.push_back(fmt::format("\"layers.{}\"", next++));
    if (stage + 1 == layers.size()) {
      modules.emplace_back("\"norm\"");
      modules.emplace_back("\"output\"");
    }
    text += fmt::format("  [{}],\n", fmt::join(modules, ", "));
  }
  return text;
}

/// A float, which torchtitan asks for; nothing where there is no clipping.
std::string clipping_of(double norm) {
  if (norm <= 0) return {};
  std::string number = fmt::format("{}", norm);
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  return fmt::format("max_norm = {}\n", number);
}

/// Sequences of a rank's step, and how they become micro-batches.
std::string batch_of(const Choice& choice) {
  const std::int64_t sequences = choice.batch * choice.micro_batches;
  if (is_pipelined(choice)) return fmt::format("local_batch_size = {}\n", sequences);
  return fmt::format("local_batch_size = {}\nglobal_batch_size = {}\n", choice.batch,
                     sequences * choice.mesh.replicate * choice.mesh.shard);
}

std::string pipeline_of(const Choice& choice, const Model& model) {
  if (!is_pipelined(choice)) return {};
  return fmt::format(
      "pipeline_parallel_degree = {}\npipeline_parallel_schedule = \"{}\"\n"
      "pipeline_parallel_microbatch_size = {}\nmodule_fqns_per_model_part = [\n{}]\n",
      choice.mesh.pipeline, name_of(choice.pipeline.schedule), choice.batch,
      modules_of_stages(choice, model));
}

std::string axes_of(const TorchtitanAxes& axes) {
  std::string text;
  if (axes.context > 1)
    text += fmt::format(
        "context_parallel_degree = {}\ncontext_parallel_rotate_method = \"allgather\"\n",
        axes.context);
  if (axes.tensor > 1) text += fmt::format("tensor_parallel_degree = {}\n", axes.tensor);
  if (axes.experts > 1) text += fmt::format("expert_parallel_degree = {}\n", axes.experts);
  return text;
}

std::string checkpointing_of(const eager::CheckpointChoice& choice) {
  if (choice.every == 0 || (choice.every == 1 && !choice.selective))
    return fmt::format("mode = \"{}\"\n", text_of(choice));
  return fmt::format("mode = \"selective\"\nselective_ac_option = \"{}\"\n",
                     choice.selective ? std::string("op") : std::to_string(choice.every));
}

std::string compilation_of(CompileScope scope) {
  if (scope == CompileScope::none) return {};
  return fmt::format("\n[compile]\nenable = true\ncomponents = [\"model\"{}]\n",
                     scope == CompileScope::blocks ? "" : ", \"loss\"");
}

std::string float8_of(eager::parallel::Float8Recipe recipe) {
  if (recipe == eager::parallel::Float8Recipe::none) return {};
  const bool gathers = recipe == eager::parallel::Float8Recipe::tensorwise;
  return fmt::format(
      "\n[model]\nconverters = [\"quantize.linear.float8\"]\n\n[quantize.linear.float8]\n{}"
      "filter_fqns = [\"output\"]\n",
      gathers ? "enable_fsdp_float8_all_gather = true\n"
                "precompute_float8_dynamic_scale_for_fsdp = true\n"
              : "recipe_name = \"rowwise\"\n");
}

/// Names of torchtitan's configuration of 2025 (config/job_config.py).
WrittenChoice torchtitan_of(const Choice& choice, const WrittenFrom& from) {
  const Mesh& mesh = choice.mesh;
  const bool reshards = zero_stage(choice.sharding) == 3;
  const bool computes_in_fp32 = choice.precision == TrainingPrecision::fp32;
  WrittenChoice result{.file = "torchtitan.toml", .format = "torchtitan"};
  result.text = fmt::format(
      "[training]\n{}seq_len = {}\n{}dtype = \"{}\"\nmixed_precision_param = \"{}\"\n\n"
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "fsdp_reshard_after_forward = \"{}\"\n{}{}\n[activation_checkpoint]\n{}{}{}",
      batch_of(choice), from.job.seq, clipping_of(from.job.clip),
      choice.precision == TrainingPrecision::bf16 ? "bfloat16" : "float32",
      computes_in_fp32 ? "float32" : "bfloat16", mesh.replicate, mesh.shard,
      reshards ? "always" : "never", pipeline_of(choice, from.model),
      choice.torchtitan ? axes_of(*choice.torchtitan) : std::string(),
      checkpointing_of(choice.checkpointing), compilation_of(from.compiled),
      float8_of(from.float8));
  if (from.job.clip <= 0)
    result.losses.push_back({"no clipping", "belongs to the script: torchtitan clips to max_norm"});
  result.losses.push_back(
      {"model", "belongs to the file: set model.name and model.flavor to yours"});
  return result;
}

/// accelerate leaves a model alone that from_pretrained divided.
WrittenChoice divided_of(const Choice& choice, const WrittenFrom& from) {
  const int world = world_of(choice);
  const bool mixed = choice.precision == TrainingPrecision::bf16_mixed;
  const bool shards = choice.mesh.world() > 1;
  WrittenChoice result{.file = "accelerate.yaml", .format = "accelerate"};
  result.text = fmt::format(
      "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: '{}'\n"
      "num_machines: {}\nnum_processes: {}\nmachine_rank: 0\nparallelism_config:\n"
      "  parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n"
      "  parallelism_config_tp_size: {}\n",
      mixed && !shards ? "bf16" : "no", machines_of(world, from), world, choice.mesh.replicate,
      choice.mesh.shard, choice.tensor);
  result.losses.push_back(
      {"distributed_config",
       fmt::format("belongs to the script: from_pretrained(..., dtype={}, distributed_config="
                   "DistributedConfig(tp_size={}, fsdp_size={}, dp_replicate_size={}, "
                   "fsdp_mixed_precision={}))",
                   choice.precision == TrainingPrecision::bf16 ? "torch.bfloat16" : "torch.float32",
                   choice.tensor, choice.mesh.shard, choice.mesh.replicate,
                   mixed && shards ? "True" : "False")});
  if (choice.checkpointing.every > 0)
    result.losses.push_back(
        {"activation_checkpointing",
         fmt::format("belongs to the script: TrainingArguments(activation_checkpointing=True, "
                     "activation_checkpointing_kwargs={{\"every_n_layers\": {}}})",
                     choice.checkpointing.every)});
  return result;
}

}  // namespace

std::string memory_beyond_the_file(const Choice& choice, const WrittenFrom& from) {
  if (choice.runtime == Runtime::native || is_pipelined(choice) || choice.torchtitan) return {};
  if (choice.tensor > 1) return "distributed_config";
  const std::vector<Loss> losses = memory_losses(choice, from);
  return losses.empty() ? std::string() : losses.front().key;
}

std::string what_the_file_lacks(const Choice& choice, const WrittenFrom& from) {
  std::vector<std::string> keys;
  for (const Loss& loss : choice_losses(choice, from)) keys.push_back(loss.key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::optional<Choice> as_the_file_alone(const Choice& choice, const WrittenFrom& from) {
  if (choice.runtime == Runtime::native || is_pipelined(choice) || choice.torchtitan) return choice;
  if (choice.tensor > 1) return std::nullopt;
  Choice alone = choice;
  if (needs_process_groups(choice, from)) {
    const int world = choice.mesh.world();
    // "The arg 'group_size' must not exceed the world size", and must divide it.
    if (world % from.ranks_per_node != 0) return std::nullopt;
    alone.mesh = {.replicate = world / from.ranks_per_node, .shard = from.ranks_per_node};
  }
  if (is_of_the_script(choice.checkpointing)) alone.checkpointing = {};
  alone.reduces_every_micro_batch = false;
  alone.blocks_per_unit = std::min(choice.blocks_per_unit, 1);
  return alone;
}

WrittenChoice written(const Choice& choice, const WrittenFrom& from) {
  if (choice.runtime == Runtime::native) return job_of(choice, from);
  if (is_pipelined(choice) || choice.torchtitan) return torchtitan_of(choice, from);
  if (choice.tensor > 1) return divided_of(choice, from);
  PortableStrategy strategy = portable(choice, from);
  add_own(choice, strategy);
  add_compilation(from.compiled, strategy);
  const ConfigFormat format = format_of(choice.runtime);
  FittedStrategy fit = fitted(strategy, format);
  const ConfigValue config = written(fit.strategy, format);
  const bool json = format == ConfigFormat::deepspeed;
  WrittenChoice result{.file = json ? "deepspeed.json" : "accelerate.yaml",
                       .format = std::string(name_of(format)),
                       .text = json ? json_text(config, 2) + "\n" : yaml_text(config),
                       .losses = std::move(fit.losses)};
  if (choice.micro_batches == 1)
    std::erase_if(result.losses,
                  [](const Loss& loss) { return loss.key == "gradient_accumulation_steps"; });
  for (Loss& loss : beyond_the_file(choice, from)) result.losses.push_back(std::move(loss));
  return result;
}

}  // namespace shardscope::planner
