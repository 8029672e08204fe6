#include "core/pytorch/runtimes/training/requested_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.h"

namespace shardscope::eager {
namespace {

Fsdp1Setup fsdp1_setup(const shardscope::Model& model, const RuntimeRequest& request) {
  const auto dtype = compute_dtype(request.precision);
  return {.units = fsdp1_settings(model, request),
          .options = {.use_original_parameters = request.use_original_parameters,
                      .precision = {.parameters = dtype, .reduction = dtype}}};
}

fsdp2::ReshardAfterForward reshard_of(const shardscope::ReshardAfterForward& given) {
  if (!given) return std::nullopt;
  if (const bool* on = std::get_if<bool>(&*given)) return *on;
  return static_cast<int>(std::get<std::int64_t>(*given));
}

Fsdp2Setup fsdp2_setup(const shardscope::Model& model, const RuntimeRequest& request) {
  const ModuleTree tree = tree_of(model);
  Fsdp2Setup setup;
  setup.reshards = request.sharding == ShardingStrategy::full_shard ||
                   request.sharding == ShardingStrategy::hybrid_shard;
  for (const FullyShardCall& call : fully_shard_calls(model, request)) {
    setup.mesh = call.mesh.replicas > 1 ? std::vector{call.mesh.replicas, call.mesh.shards}
                                        : std::vector{call.mesh.shards};
    setup.mixed_precision = {.param_dtype = call.precision.parameters,
                             .reduce_dtype = call.precision.reduction,
                             .output_dtype = call.precision.output};
    Fsdp2Setup::Call& made =
        setup.calls.emplace_back(Fsdp2Setup::Call{{}, reshard_of(call.reshard_after_forward)});
    for (const std::int32_t module : call.modules)
      made.modules.push_back(tree.modules[static_cast<std::size_t>(module)].name);
  }
  return setup;
}

DeepSpeedSetup deepspeed_setup(const RuntimeRequest& request) {
  const Dtype precision = request.precision == TrainingPrecision::bf16
                              ? Dtype::bfloat16
                              : compute_dtype(request.precision).value_or(Dtype::float32);
  const int stage = zero_stage(request);
  return {{.stage = stage, .overlap_comm = overlaps_by_default(stage), .precision = precision}};
}

/// ZeRO stage 1 beside DDP. A GradScaler around it is not played.
bool has_zero_redundancy(const RuntimeRequest& request) {
  if (request.runtime != Runtime::ddp || request.sharding != ShardingStrategy::zero1) return false;
  if (request.precision == TrainingPrecision::fp16_mixed)
    throw Error({.where = "--precision",
                 .what = "float16 under ZeroRedundancyOptimizer is not simulated",
                 .way_out = "give bf16_mixed, or --runtime deepspeed --strategy zero1"});
  return true;
}

RuntimeSetup runtime_of(const shardscope::Model& model, const RuntimeRequest& request) {
  switch (request.runtime) {
    case Runtime::fsdp1:
      return fsdp1_setup(model, request);
    case Runtime::fsdp2:
      return fsdp2_setup(model, request);
    case Runtime::ddp:
      // accelerate and the Trainer wrap nothing on one rank (accelerator.py, prepare_model).
      if (request.world == 1) return PlainSetup{};
      return ddp::Options{};
    case Runtime::deepspeed:
      return deepspeed_setup(request);
    case Runtime::native:
      break;
  }
  throw Error({.where = "--runtime", .what = "native training is no training under PyTorch"});
}

bool is_block(const shardscope::Model& model, const shardscope::Module& module) {
  const std::string number = module.name.substr(module.name.rfind('.') + 1);
  const bool numbered = number.find_first_not_of("0123456789") == std::string::npos;
  const auto& classes = model.no_split_classes;
  return numbered && !number.empty() && module.same_as.empty() &&
         std::find(classes.begin(), classes.end(), module.class_name) != classes.end();
}

/// torchtitan's per-operator policy: what attention returns, and every second aten.mm of a block.
/// Each block counts with a copy of its own. Source: torchtitan, parallelize_llama.py,
/// _get_custom_policy.
std::function<bool(const Operator&)> every_second_product() {
  return [products = 0](const Operator& op) mutable {
    if (op.name == "aten.mm.default") return ++products % 2 == 1;
    return op.kind == OperatorKind::attention;
  };
}

}  // namespace

std::function<bool(const Operator&)> all_but_core_attention() {
  return [behind_softmax = false](const Operator& op) mutable {
    const bool softmax = op.name.starts_with("aten._softmax") || op.name == "aten.softmax.int";
    const bool dropout = op.name.find("dropout") != std::string_view::npos;
    const bool core = softmax || (dropout && behind_softmax) || op.name == "aten.bmm.default" ||
                      op.name == "aten.baddbmm.default" || op.kind == OperatorKind::attention;
    if (softmax) behind_softmax = true;
    if (dropout) behind_softmax = false;
    return !core;
  };
}

namespace {

/// What the Trainer does with a model of from_pretrained(distributed_config=...).
TrainingSetup divided_setup(const shardscope::Model& model, const RuntimeRequest& request) {
  if (request.precision == TrainingPrecision::fp16_mixed)
    throw Error({.where = "--precision",
                 .what = "float16 beside an axis tensor is not predicted",
                 .way_out = "give bf16 or bf16_mixed"});
  TrainingSetup setup{.world = request.world,
                      .rank = request.rank,
                      .runtime = PlainSetup{},
                      .tensor = TensorSetup{.ranks = request.tensor, .plan = tensor_plan_of(model)},
                      .trainable_dtype = parameter_dtype(request.precision),
                      .model = usual_settings(model)};
  setup.loop.syncs_once = true;
  setup.loop.optimizer.implementation = OptimizerImplementation::fused;
  const Mesh mesh = request.mesh.value_or(Mesh{});
  const bool mixed = request.precision == TrainingPrecision::bf16_mixed;
  const bool shards = mesh.replicate * mesh.shard > 1;
  if (mixed && (!shards || request.autocasts)) setup.forward_autocast = Dtype::bfloat16;
  if (!shards) {
    setup.assumed.emplace_back(
        "the Trainer with from_pretrained(distributed_config=DistributedConfig(tp_size=...)) of "
        "transformers 5.24");
    return setup;
  }
  Fsdp2Setup fsdp2;
  fsdp2.mesh =
      mesh.replicate > 1 ? std::vector{mesh.replicate, mesh.shard} : std::vector{mesh.shard};
  if (mixed && !request.autocasts)
    fsdp2.mixed_precision = {.param_dtype = Dtype::bfloat16, .reduce_dtype = Dtype::float32};
  for (FullyShardedModules& call : fsdp_plan_of(model))
    fsdp2.calls.push_back({std::move(call.modules), reshard_of(call.reshard_after_forward)});
  setup.runtime = std::move(fsdp2);
  setup.assumed.emplace_back(
      "the Trainer with from_pretrained(distributed_config=DistributedConfig(tp_size=..., "
      "fsdp_size=...)) of transformers 5.24: its fsdp_plan makes the units");
  return setup;
}

}  // namespace

TrainingSetup requested_setup(const shardscope::Model& model, const RuntimeRequest& request) {
  if (request.tensor > 1) return divided_setup(model, request);
  TrainingSetup setup{.world = request.world,
                      .rank = request.rank,
                      .runtime = runtime_of(model, request),
                      .trainable_dtype = parameter_dtype(request.precision),
                      .model = usual_settings(model)};
  setup.loop.scales_loss =
      request.precision == TrainingPrecision::fp16_mixed && request.runtime != Runtime::deepspeed;
  setup.loop.zero_redundancy = has_zero_redundancy(request);
  if (request.runtime == Runtime::ddp)
    setup.loop.autocast = compute_dtype(request.precision);
  else
    setup.made_on = Device::cpu;
  // from_pretrained loads in it, so that no other dtype comes to the device.
  if (const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime))
    setup.trainable_dtype = zero->settings.precision;
  return setup;
}

namespace {

/// is_fsdp_enabled with cpu_ram_efficient_loading, and is_deepspeed_zero3_enabled.
bool quantises_for_the_host(const TrainingSetup& setup) {
  if (const auto* zero = std::get_if<DeepSpeedSetup>(&setup.runtime))
    return zero->settings.stage == 3;
  const auto* fsdp1 = std::get_if<Fsdp1Setup>(&setup.runtime);
  return setup.loads_from_rank_0 || (fsdp1 != nullptr && fsdp1->options.sync_module_states);
}

}  // namespace

void set_fine_tuning(FineTuningSetup tuning, TrainingSetup& setup) {
  if (tuning.loads_as_transformers_4 && tuning.quantization) {
    tuning.to_host = quantises_for_the_host(setup);
    tuning.warm_up = WarmUp::halved;
  }
  // FSDP and DeepSpeed take a model on the host; a quantised one is made on its device.
  tuning.from_pretrained = std::holds_alternative<ddp::Options>(setup.runtime) ||
                           std::holds_alternative<PlainSetup>(setup.runtime) ||
                           tuning.quantization.has_value();
  if (tuning.from_pretrained) {
    setup.made_on = Device::cuda;
    setup.loads_from_rank_0 = false;
  }
  // PEFT's adapters are float32 beside a base in bfloat16, and nothing around the model casts them.
  // Source: peft 0.21.2, tuners/tuners_utils.py (cast_adapter_dtype).
  const bool unsharded = std::holds_alternative<ddp::Options>(setup.runtime) ||
                         std::holds_alternative<PlainSetup>(setup.runtime);
  const bool by_fsdp = std::holds_alternative<Fsdp1Setup>(setup.runtime) ||
                       std::holds_alternative<Fsdp2Setup>(setup.runtime);
  const bool is_half = setup.trainable_dtype && *setup.trainable_dtype != Dtype::float32;
  if (tuning.adapter && (unsharded || (by_fsdp && is_half))) setup.trainable_dtype.reset();
  // DeepSpeed casts nothing of a model that zero.Init made: adapters stay as PEFT made them. Before
  // 2026 it did. Source: deepspeedai/DeepSpeed pull request 8066; 0.19.8 engine.py,
  // _cast_module_mixed_precision.
  auto* const zero = std::get_if<DeepSpeedSetup>(&setup.runtime);
  if (zero != nullptr && zero->settings.stage == 3 && !tuning.from_pretrained) {
    zero->settings.keeps_dtypes = true;
    setup.trainable_dtype.reset();
    // Whatever dtype was asked for (partition_parameters.py, Init._set_dtype).
    tuning.base = std::make_shared<const shardscope::Model>(
        with_dtype(*tuning.base, zero->settings.precision));
  }
  setup.fine_tuning = std::move(tuning);
}

CheckpointChoice parse_checkpoint_choice(std::string_view text, std::string_view where) {
  if (text == "none") return {};
  if (text == "full") return {.every = 1};
  if (text == "selective") return {.every = 1, .selective = true};
  if (text == "reentrant") return {.every = 1, .reentrant = true};
  for (const std::string_view prefix : {"every:", "reentrant:"}) {
    if (!text.starts_with(prefix)) continue;
    int every = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + prefix.size(), end, every);
    if (read.ec == std::errc() && read.ptr == end && every >= 1)
      return {.every = every, .reentrant = prefix.starts_with("reentrant")};
  }
  throw Error(
      {.where = std::string(where),
       .what = fmt::format(
           "\"{}\" is none of none, full, every:K, selective, reentrant, reentrant:K", text),
       .way_out = "every:2 checkpoints every second block"});
}

CheckpointSetup checkpointing_of(const shardscope::Model& model, const CheckpointChoice& choice) {
  CheckpointSetup setup;
  int number = 0;
  for (const shardscope::Module& module : model.modules)
    if (choice.every > 0 && is_block(model, module) && number++ % choice.every == 0)
      setup.modules.push_back(module.name);
  if (choice.selective) setup.options.saves = every_second_product();
  setup.options.reentrant = choice.reentrant;
  return setup;
}

void set_checkpointing(const CheckpointChoice& choice, FineTuningSetup& tuning) {
  if (choice.selective)
    throw Error({.where = "--checkpointing",
                 .what = "transformers checkpoints whole blocks",
                 .way_out = "give full, every:K, reentrant, reentrant:K or none"});
  tuning.checkpointed_layers = checkpointing_of(*tuning.base, choice).modules;
  tuning.checkpointing.reentrant = choice.reentrant;
  tuning.input_gradients = !tuning.checkpointed_layers.empty();
}

}  // namespace shardscope::eager
