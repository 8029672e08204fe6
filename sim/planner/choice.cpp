#include "sim/planner/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/native/resolved_strategy.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/pytorch/plans/transformers_facts.h"
#include "core/pytorch/plans/wrapping.h"

namespace shardscope::planner {
namespace {

constexpr std::string_view prefetch_names[] = {"none", "post", "pre", "both"};

/// Neighbouring blocks in one unit each; the rest is the root's.
UnitChoice units_of_blocks(const Model& model, int blocks_per_unit) {
  if (blocks_per_unit == 0) return {.kind = UnitChoice::Kind::none};
  if (blocks_per_unit == 1) return {};
  UnitChoice units{.kind = UnitChoice::Kind::by_hand};
  int number = 0;
  for (const std::string& block : eager::checkpointing_of(model, {.every = 1}).modules) {
    if (number++ % blocks_per_unit == 0) units.units.emplace_back();
    units.units.back().push_back(block);
  }
  return units;
}

eager::fsdp1::BackwardPrefetch backward_prefetch(Prefetch prefetch) {
  if (prefetch == Prefetch::none) return eager::fsdp1::BackwardPrefetch::none;
  return prefetch == Prefetch::post ? eager::fsdp1::BackwardPrefetch::post
                                    : eager::fsdp1::BackwardPrefetch::pre;
}

void apply(const Choice& choice, eager::Fsdp1Setup& setup) {
  setup.options.backward_prefetch = backward_prefetch(choice.prefetch);
  setup.options.forward_prefetch = choice.prefetch == Prefetch::both;
  setup.options.offload_parameters = choice.offload == Offload::all;
}

void apply(const Choice& choice, eager::Fsdp2Setup& setup) {
  if (choice.offload == Offload::all) setup.offload = eager::fsdp2::CpuOffloadPolicy{};
}

void apply(const Choice& choice, const Training& training, eager::DeepSpeedSetup& setup) {
  DeepSpeedSettings& settings = setup.settings;
  settings.overlap_comm = choice.prefetch != Prefetch::none;
  if (settings.stage == 3 && choice.prefetch == Prefetch::none)
    settings.prefetch_bucket_elements = 0;
  if (is_hybrid(choice.sharding)) settings.hpz_partition_size = choice.mesh.shard;
  if (choice.offload != Offload::none) settings.offload_optimizer.device = OffloadDevice::cpu;
  if (choice.offload == Offload::all) settings.offload_param.device = OffloadDevice::cpu;
  settings.micro_batch_size = choice.batch;
  settings.accumulation_steps = choice.micro_batches;
  settings.train_batch_size = choice.batch * choice.micro_batches * choice.mesh.world();
  settings.gradient_clipping = training.clip;
}

/// Accelerator.prepare_model: autocast is the model's own forward's, FSDP1 casts buffers, too.
void pass_through_accelerate(eager::TrainingSetup& setup) {
  setup.loop.divides_in_backward = true;
  if (std::holds_alternative<eager::ddp::Options>(setup.runtime))
    setup.forward_autocast = std::exchange(setup.loop.autocast, std::nullopt);
  if (auto* fsdp1 = std::get_if<eager::Fsdp1Setup>(&setup.runtime)) {
    setup.forward_autocast = fsdp1->options.precision.parameters;
    fsdp1->options.precision.buffers = fsdp1->options.precision.parameters;
  }
}

Wrap native_wrap(const Choice& choice, const Model& model) {
  if (choice.blocks_per_unit == 0) return {.policy = WrapPolicy::none};
  if (choice.blocks_per_unit == 1 || !model.decoder || model.decoder->blocks.empty()) return {};
  const std::string block = model.decoder->blocks.front().module + ".";
  std::int64_t elements = 0;
  for (const Parameter& parameter : model.parameters)
    if (parameter.name.starts_with(block)) elements += parameter.elements();
  return {.policy = WrapPolicy::size, .min_elements = elements * choice.blocks_per_unit};
}

Checkpointing native_checkpointing(const eager::CheckpointChoice& choice) {
  return {.every = choice.selective ? 0 : choice.every, .selective = choice.selective};
}

Precision native_precision(TrainingPrecision precision) {
  return parse_precision(name_of(precision), "precision");
}

std::string grid_text(const Mesh& mesh) {
  return fmt::format(" {} x {}", mesh.replicate, mesh.shard);
}

/// A pipeline with what is inside a stage, where its ranks are several.
std::string pipeline_text(const Choice& choice) {
  const PipelineChoice& pipeline = choice.pipeline;
  std::string text =
      fmt::format("{} pipeline of {}", name_of(pipeline.schedule), choice.mesh.pipeline);
  if (pipeline.stages_per_rank > 1) text += fmt::format(" x {}", pipeline.stages_per_rank);
  if (choice.mesh.replicate * choice.mesh.shard == 1) return text;
  return text + fmt::format(", {}{} inside", name_of(choice.sharding),
                            is_hybrid(choice.sharding) ? grid_text(choice.mesh) : "");
}

/// "pipeline 4 x shard 8 x tensor 2": the axes of several ranks.
std::string axes_text(const Choice& choice) {
  const std::pair<std::string_view, int> axes[] = {
      {"pipeline", choice.mesh.pipeline},    {"replicate", choice.mesh.replicate},
      {"shard", choice.mesh.shard},          {"context", choice.torchtitan->context},
      {"tensor", choice.torchtitan->tensor}, {"expert", choice.torchtitan->experts}};
  std::string text;
  for (const auto& [name, size] : axes)
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, size);
  return text;
}

/// Below stage 3 of DeepSpeed nothing is gathered ahead: reductions beside the backward are all.
std::string prefetch_text(const Choice& choice) {
  const bool reduces_alone =
      choice.runtime == Runtime::deepspeed && zero_stage(choice.sharding) < 3;
  return reduces_alone ? "overlap_comm" : fmt::format("prefetch {}", name_of(choice.prefetch));
}

}  // namespace

Prefetch usual_prefetch(Runtime runtime, ShardingStrategy sharding) {
  switch (runtime) {
    case Runtime::native:
      return Prefetch::both;
    case Runtime::ddp:
      return Prefetch::none;
    case Runtime::deepspeed:
      return overlaps_by_default(zero_stage(sharding)) ? Prefetch::pre : Prefetch::none;
    default:
      return Prefetch::pre;
  }
}

std::string_view name_of(Prefetch prefetch) {
  return prefetch_names[static_cast<std::size_t>(prefetch)];
}
std::string text_of(const eager::CheckpointChoice& choice) {
  if (choice.every == 0) return "none";
  if (choice.selective) return "selective";
  return choice.every == 1 ? "full" : fmt::format("every:{}", choice.every);
}

std::string_view runtime_name(const Choice& choice) {
  return choice.torchtitan ? "torchtitan" : name_of(choice.runtime);
}

std::string mesh_text(const Choice& choice) {
  const std::string mesh = text_of(choice.mesh);
  if (!choice.torchtitan)
    return choice.tensor == 1 ? mesh : fmt::format("{},tensor={}", mesh, choice.tensor);
  return fmt::format("{},context={},tensor={}{}", mesh, choice.torchtitan->context,
                     choice.torchtitan->tensor,
                     has_experts(choice) ? fmt::format(",expert={}", expert_ranks(choice)) : "");
}

std::string strategy_text(const Choice& choice) {
  if (choice.torchtitan) return fmt::format("torchtitan {}", axes_text(choice));
  if (is_pipelined(choice))
    return fmt::format("{} {}", name_of(choice.runtime), pipeline_text(choice));
  const std::string divided =
      choice.tensor == 1 ? std::string() : fmt::format("tensor {}, ", choice.tensor);
  return fmt::format("{} {}{}{}", name_of(choice.runtime), divided, name_of(choice.sharding),
                     is_hybrid(choice.sharding) ? grid_text(choice.mesh) : "");
}

std::vector<std::string> unusual_settings(const Choice& choice) {
  std::vector<std::string> settings;
  if (choice.torchtitan && zero_stage(choice.sharding) == 2)
    settings.emplace_back("parameters kept after forward");
  if (choice.blocks_per_unit == 0) settings.emplace_back("one unit");
  if (choice.blocks_per_unit > 1)
    settings.push_back(fmt::format("units of {}", choice.blocks_per_unit));
  if (choice.prefetch != usual_prefetch(choice.runtime, choice.sharding))
    settings.push_back(prefetch_text(choice));
  if (choice.checkpointing.every > 0)
    settings.push_back("checkpointing " + text_of(choice.checkpointing));
  if (!choice.pipeline.layers.empty())
    settings.push_back(fmt::format("layers {}", text_of_stages(choice.pipeline)));
  else if (is_pipelined(choice) && choice.pipeline.balance != StageBalance::layers)
    settings.push_back(fmt::format("layers by {}", name_of(choice.pipeline.balance)));
  if (choice.pipeline.checkpoint != PipelineCheckpoint::never)
    settings.push_back(fmt::format("stages checkpointed {}", name_of(choice.pipeline.checkpoint)));
  if (choice.offload != Offload::none)
    settings.push_back(fmt::format("offload {}", name_of(choice.offload)));
  return settings;
}

std::string text_of(const Choice& choice) {
  std::string text = strategy_text(choice);
  if (choice.torchtitan && is_pipelined(choice)) {
    text += fmt::format(", {}", name_of(choice.pipeline.schedule));
    if (choice.pipeline.stages_per_rank > 1)
      text += fmt::format(" with {} stages a rank", choice.pipeline.stages_per_rank);
  }
  text += fmt::format(", batch {}", choice.batch);
  if (choice.micro_batches > 1) text += fmt::format(" x {}", choice.micro_batches);
  if (choice.reduces_every_micro_batch) text += " each reduced";
  for (const std::string& setting : unusual_settings(choice)) text += ", " + setting;
  return text + fmt::format(", {}", name_of(choice.precision));
}

std::string settings_text(const Choice& choice) {
  return text_of(choice).substr(strategy_text(choice).size() + std::string_view(", ").size());
}

bool keeps_original_parameters(const Model& model) {
  return !std::ranges::all_of(model.parameters, &Parameter::trainable);
}

RuntimeRequest runtime_request(const Choice& choice, const Model& model) {
  const bool zero = choice.runtime == Runtime::deepspeed;
  RuntimeRequest request{.runtime = choice.runtime,
                         .sharding = choice.sharding,
                         .units = units_of_blocks(model, choice.blocks_per_unit),
                         .precision = choice.precision,
                         .world = world_of(choice)};
  // DeepSpeed's second copy is a setting beside stage 3, not a mesh.
  if (zero && is_hybrid(choice.sharding)) request.sharding = ShardingStrategy::full_shard;
  if (!zero && is_hybrid(choice.sharding)) request.mesh = choice.mesh;
  request.tensor = choice.tensor;
  if (choice.tensor > 1) request.mesh = choice.mesh;
  request.ranks_per_node = choice.mesh.shard;
  request.use_original_parameters = keeps_original_parameters(model);
  return request;
}

namespace {

/// accelerate wraps FSDP's blocks in checkpoints. Without FSDP transformers checkpoints its layers.
/// The Trainer gives FSDP1 PEFT's units, whatever its file says.
void apply_fine_tuning(const Choice& choice, const Model& model, eager::FineTuningSetup tuning,
                       eager::TrainingSetup& setup) {
  if (auto* fsdp1 = std::get_if<eager::Fsdp1Setup>(&setup.runtime); fsdp1 && tuning.adapter) {
    const std::set<std::string> units = peft_units(tree_of(model), model.no_split_classes);
    fsdp1->units.auto_wrap = NameWrap{.modules = {units.begin(), units.end()}};
  }
  const bool wrapped = choice.runtime == Runtime::fsdp1 || choice.runtime == Runtime::fsdp2;
  eager::set_checkpointing(wrapped ? eager::CheckpointChoice{} : choice.checkpointing, tuning);
  if (!wrapped) setup.checkpointing = {};
  eager::set_fine_tuning(std::move(tuning), setup);
}

}  // namespace

eager::TrainingSetup training_setup(const Choice& choice, const Model& model,
                                    const Training& training) {
  eager::TrainingSetup setup = eager::requested_setup(model, runtime_request(choice, model));
  const eager::TrainingSettings requested = std::exchange(setup.loop, training.loop);
  setup.loop.autocast = requested.autocast;
  setup.loop.scales_loss = requested.scales_loss;
  setup.loop.zero_redundancy = requested.zero_redundancy;
  setup.loop.batch = choice.batch;
  setup.loop.length = training.length;
  setup.loop.micro_batches = choice.micro_batches;
  setup.loop.syncs_once = !choice.reduces_every_micro_batch;
  setup.loop.clips = training.clip > 0;
  setup.session = training.session;
  setup.model = training.model;
  setup.checkpointing = eager::checkpointing_of(model, choice.checkpointing);
  if (auto* fsdp1 = std::get_if<eager::Fsdp1Setup>(&setup.runtime)) apply(choice, *fsdp1);
  if (auto* fsdp2 = std::get_if<eager::Fsdp2Setup>(&setup.runtime)) apply(choice, *fsdp2);
  if (auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup.runtime))
    apply(choice, training, *zero);
  if (setup.tensor) setup.loop.optimizer.implementation = requested.optimizer.implementation;
  if (training.through_accelerate && !setup.tensor) pass_through_accelerate(setup);
  if (training.fine_tuning) apply_fine_tuning(choice, model, *training.fine_tuning, setup);
  setup.compiled = training.compiled;
  setup.float8 = eager::parallel::float8_settings(
      training.float8, std::holds_alternative<eager::Fsdp2Setup>(setup.runtime));
  // The host's update has no foreach kernels.
  if (choice.offload == Offload::all && choice.runtime != Runtime::deepspeed)
    setup.loop.optimizer.implementation = eager::OptimizerImplementation::loop;
  return setup;
}

Prefetching native_prefetching(Prefetch prefetch) {
  const bool both = prefetch == Prefetch::both;
  return {.forward = both ? 1 : 0,
          .backward = prefetch == Prefetch::none ? 0 : 1,
          .backward_post = prefetch == Prefetch::post};
}

Strategy native_strategy(const Choice& choice, const Model& model) {
  const Strategy strategy{.runtime = Runtime::native,
                          .sharding = choice.sharding,
                          .mesh = choice.mesh,
                          .wrap = native_wrap(choice, model),
                          .prefetch = native_prefetching(choice.prefetch),
                          .checkpointing = native_checkpointing(choice.checkpointing),
                          .offload = choice.offload,
                          .precision = native_precision(choice.precision),
                          .reduce_every_micro_batch = choice.reduces_every_micro_batch};
  return resolved(strategy, choice.mesh.world(), text_of(choice));
}

Workload native_workload(const Choice& choice, const Training& training) {
  return {.batch = choice.batch,
          .length = training.length,
          .micro_batches = choice.micro_batches,
          .optimizer = training.optimizer,
          .clip = training.clip};
}

NativeTraining native_training(const Choice& choice, const Model& model, const Training& training) {
  return {.model = model,
          .strategy = native_strategy(choice, model),
          .workload = native_workload(choice, training),
          .pipeline = choice.pipeline};
}

}  // namespace shardscope::planner
