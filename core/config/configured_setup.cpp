#include "core/config/configured_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/config/accelerate/python_rules.h"
#include "core/config/accelerate/wrapped_modules.h"
#include "core/config/values/python_arithmetic.h"
#include "core/format/python_text.h"

namespace shardscope::eager {
namespace {

using accelerate::Checkpointed;
using accelerate::FsdpPlugin;

std::string mixed_precision(const Workers& workers) {
  return lower_of(variable(workers.environment, "ACCELERATE_MIXED_PRECISION", "no"));
}

std::optional<Dtype> compute_dtype(std::string_view precision) {
  if (precision == "bf16" || precision == "fp8") return Dtype::bfloat16;
  if (precision == "fp16") return Dtype::float16;
  return std::nullopt;
}

Error not_modelled(std::string where, std::string what, std::string way_out) {
  return Error({.where = std::move(where),
                .what = std::move(what) + " is not predicted",
                .way_out = std::move(way_out)});
}

/// Recorded with accelerate 1.15.0 and transformers 5.24.0: _prepare_tp imports ReplicateParallel,
/// and from_pretrained(tp_plan="auto", device_mesh=...) asks for a world of tp_size ranks.
Error divided_under_fsdp2(const std::string& size) {
  return Error(
      {.where = "parallelism_config_tp_size",
       .what = fmt::format("{} ranks of tp under FSDP2: accelerate 1.15 raises ImportError for a "
                           "model that transformers 5.24 loaded with a tensor-parallel plan",
                           size),
       .way_out = fmt::format(
           "load it with DistributedConfig(tp_size={}, fsdp_size=...) and write "
           "distributed_type MULTI_GPU: --runtime fsdp2 --mesh tensor={},shard=2 predicts "
           "that",
           size, size)});
}

void refuse_unknown(const Workers& workers) {
  if (lower_of(variable(workers.environment, "ACCELERATE_USE_MEGATRON_LM", "false")) == "true")
    throw not_modelled("distributed_type", "MEGATRON_LM", "use FSDP or DEEPSPEED");
  for (const char* axis : {"TP", "CP", "SP"}) {
    const std::string size =
        variable(workers.environment, fmt::format("PARALLELISM_CONFIG_{}_SIZE", axis), "1");
    if (size == "1" || size.empty()) continue;
    if (std::string_view(axis) == "TP" && workers.uses_fsdp()) throw divided_under_fsdp2(size);
    const bool is_tensor = std::string_view(axis) == "TP";
    throw not_modelled(
        fmt::format("parallelism_config_{}_size", lower_of(axis)),
        "parallelism inside a layer or a sequence",
        fmt::format("set it to 1; --mesh {}=4 of --runtime {}megatron or torchtitan predicts such "
                    "ranks",
                    is_tensor ? "tensor" : "context", is_tensor ? "fsdp2, " : ""));
  }
}

bool flag_in(const Workers& workers, const char* name, bool otherwise) {
  return str_to_bool(variable(workers.environment, name, otherwise ? "true" : "false"));
}

/// AORecipeKwargs. Without a backend accelerate takes torchao where it is installed.
parallel::Float8Settings float8_of_accelerate(const Workers& workers,
                                              std::vector<std::string>& assumed) {
  const std::string backend =
      upper_of(variable(workers.environment, "ACCELERATE_FP8_BACKEND", "NO"));
  if (backend != "AO" && backend != "NO")
    throw not_modelled("fp8_config: backend", backend,
                       "give AO (torchao), or mixed_precision bf16, which needs more memory");
  if (workers.uses_deepspeed())
    throw not_modelled("mixed_precision", "fp8 under DeepSpeed", "give bf16, or use FSDP2");
  if (backend == "NO") assumed.emplace_back("fp8 by torchao, as where it is installed");
  const bool gathers = flag_in(workers, "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER", true);
  return {.recipe = parallel::Float8Recipe::tensorwise,
          .fsdp_all_gather = gathers,
          .pad_inner_dim = flag_in(workers, "ACCELERATE_FP8_PAD_INNER_DIM", true),
          .precompute_scale = gathers};
}

std::vector<std::string> names_of(const ModuleTree& tree, const Checkpointed& checkpointed) {
  std::vector<std::string> names;
  for (const std::int32_t module : checkpointed.modules)
    names.push_back(tree.modules[static_cast<std::size_t>(module)].name);
  return names;
}

void set_elements(TreeParameter& parameter, std::int64_t elements) { parameter.shape = {elements}; }

/// The tree as policies find it once the units are there: sizes are those of this rank's shards,
/// which one FlatParameter in the unit's module holds, or, with use_orig_params, the parameters
/// themselves.
ModuleTree sharded_tree(ModuleTree tree, const Fsdp1Settings& settings, int rank) {
  const Fsdp1Plan plan = plan_fsdp1(tree, settings, rank);
  for (const Fsdp1Unit& unit : plan.units) {
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const auto part = part_of(unit.flat, i, unit.shard_of(rank));
      const bool keeps = settings.use_original_parameters && part;
      set_elements(tree.parameters[static_cast<std::size_t>(unit.parameters[i].source)],
                   keeps ? part->elements : 0);
    }
    if (settings.use_original_parameters || unit.parameters.empty()) continue;
    const auto module = find_module(tree, 0, unit.module);
    TreeParameter flat{.name = unit.module + "._flat_param"};
    set_elements(flat, unit.flat.shard_elements);
    tree.modules[static_cast<std::size_t>(module.value_or(0))].parameters.push_back(
        static_cast<std::int32_t>(tree.parameters.size()));
    tree.parameters.push_back(std::move(flat));
  }
  return tree;
}

/// Trainer._build_accelerator_args: parameters that checkpointing hides are not looked for.
ddp::Options trainer_ddp(const TrainingArguments& arguments) {
  ddp::Options options;
  const ConfigValue unused = arguments.argument("ddp_find_unused_parameters");
  options.buckets.find_unused_parameters =
      unused.is_null() ? !arguments.activation_checkpointing : unused.truthy();
  if (const ConfigValue cap = arguments.argument("ddp_bucket_cap_mb"); cap.is_number())
    options.buckets.bucket_cap_mib = cap.number();
  options.buckets.static_graph = arguments.argument("ddp_static_graph").truthy();
  const ConfigValue buffers = arguments.argument("ddp_broadcast_buffers");
  options.broadcast_buffers = buffers.is_null() || buffers.truthy();
  return options;
}

/// Sets a training up, stage by stage.
class Setup {
 public:
  Setup(const ConfiguredModel& model, const Workers& workers, const ReadFile& read_file)
      : model_(model), workers_(workers), read_file_(read_file) {}

  TrainingSetup make() {
    refuse_unknown(workers_);
    setup_.world = static_cast<int>(workers_.world);
    setup_.rank = model_.rank;
    setup_.loop.syncs_once = true;  // Accelerator.accumulate: no_sync
    setup_.loop.divides_in_backward = true;
    setup_.loop.micro_batches = static_cast<int>(accelerate::integer_variable(
        workers_.environment, {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS"}, 1));
    setup_.loop.scales_loss = mixed() == Dtype::float16 && !workers_.uses_deepspeed();
    note_compilation();
    if (mixed_precision(workers_) == "fp8")
      setup_.float8 = float8_of_accelerate(workers_, setup_.assumed);
    if (workers_.uses_deepspeed())
      to_deepspeed();
    else if (!workers_.uses_fsdp())
      to_ddp();
    else
      to_fsdp(fsdp_plugin(model_, workers_));
    return std::move(setup_);
  }

 private:
  const ModuleTree& tree() const { return model_.prepared.tree; }
  std::optional<Dtype> mixed() const { return compute_dtype(mixed_precision(workers_)); }

  void note_compilation() {
    const std::string backend = variable(workers_.environment, "ACCELERATE_DYNAMO_BACKEND", "NO");
    if (backend.empty() || upper_of(backend) == "NO") return;
    // Those that only trace leave the kernels eager.
    const bool makes_kernels = upper_of(backend) == "INDUCTOR";
    // compile_regions: blocks that repeat, one by one, and the modules beside them.
    const bool regional = flag_in(workers_, "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", false);
    if (makes_kernels) setup_.compiled = regional ? CompileScope::blocks : CompileScope::model;
    setup_.assumed.push_back(fmt::format(
        "torch.compile (dynamo_backend {}) {}", backend,
        makes_kernels
            ? "makes one kernel of what lies between products, and keeps less for backward"
            : "is left out: the operators are eager PyTorch's"));
  }

  void to_ddp() {
    setup_.forward_autocast = mixed();
    if (workers_.world == 1) return;
    setup_.runtime = workers_.trainer ? trainer_ddp(*workers_.trainer) : ddp::Options{};
  }

  void to_deepspeed() {
    DeepSpeedSettings settings = deepspeed_settings(model_, workers_, read_file_);
    setup_.loop.micro_batches = static_cast<int>(settings.accumulation_steps);
    setup_.loop.clips = settings.gradient_clipping > 0;
    if (settings.micro_batch_size > 0) setup_.loop.batch = settings.micro_batch_size;
    setup_.made_on = Device::cpu;
    setup_.trainable_dtype = settings.precision;  // as the engine casts it on the host
    if (settings.stage < 3 && settings.precision == Dtype::float32) keep_precision(settings);
    setup_.runtime = DeepSpeedSetup{std::move(settings)};
  }

  /// Where nothing is enabled the engine casts nothing, and accumulates and sends in float32. The
  /// first trained parameter says the dtype of buckets.
  /// Source: deepspeed 0.19.8 engine.py (_configure_distributed_model, get_data_types),
  /// stage_1_and_2.py (self.dtype).
  void keep_precision(DeepSpeedSettings& settings) {
    const auto trained = std::ranges::find_if(tree().parameters, &TreeParameter::trainable);
    if (trained == tree().parameters.end()) return;
    settings.precision = trained->dtype;
    settings.precision_of_weights = true;
    settings.keeps_dtypes = true;
    for (std::optional<Dtype>* dtype :
         {&settings.accumulation_dtype, &settings.communication_dtype})
      if (!*dtype) *dtype = Dtype::float32;
    setup_.trainable_dtype.reset();
  }

  void to_fsdp(const FsdpPlugin& plugin) {
    if (plugin.activation_checkpointing_offload)
      throw not_modelled("fsdp_activation_checkpointing_offload",
                         "moving checkpoints to the host's memory", "set it to false");
    if (workers_.casts_frozen_weights() || (plugin.is_version(1) && mixed()))
      setup_.dtype_of_shards = Dtype::float32;
    else if (mixed())
      setup_.trainable_dtype = Dtype::float32;
    setup_.made_on = Device::cpu;
    setup_.saves_shards = plugin.state_dict_type == "SHARDED_STATE_DICT";
    if (plugin.offload_params) setup_.loop.optimizer.implementation = OptimizerImplementation::loop;
    plugin.is_version(1) ? to_fsdp1(plugin) : to_fsdp2(plugin);
  }

  void to_fsdp1(const FsdpPlugin& plugin) {
    setup_.forward_autocast = mixed();
    if (plugin.peft_modules)
      setup_.assumed.emplace_back(
          "transformers' Trainer wraps the model: layers are units, and inside them each module "
          "that "
          "trains (PEFT's fsdp_auto_wrap_policy)");
    Fsdp1Setup fsdp{.units = fsdp1_settings(model_, workers_, plugin),
                    .options = {.backward_prefetch = fsdp1::BackwardPrefetch::none,
                                .forward_prefetch = plugin.forward_prefetch.value_or(false),
                                .limit_all_gathers = plugin.limit_all_gathers,
                                .use_original_parameters = plugin.use_orig_params.value_or(false),
                                .offload_parameters = plugin.offload_params,
                                .sync_module_states = plugin.sync_module_states.value_or(false)}};
    if (plugin.backward_prefetch)
      fsdp.options.backward_prefetch = *plugin.backward_prefetch == "BACKWARD_POST"
                                           ? fsdp1::BackwardPrefetch::post
                                           : fsdp1::BackwardPrefetch::pre;
    if (const auto dtype = compute_dtype(plugin.mixed_precision.value_or("no")))
      fsdp.options.precision = {.parameters = dtype, .reduction = dtype, .buffers = dtype};
    if (plugin.activation_checkpointing)
      setup_.checkpointing.modules = names_of(
          tree(),
          accelerate::checkpoint_like_fsdp1(plugin, sharded_tree(tree(), fsdp.units, setup_.rank)));
    setup_.runtime = std::move(fsdp);
  }

  void to_fsdp2(const FsdpPlugin& plugin) {
    Checkpointed checkpointed;
    if (plugin.activation_checkpointing) {
      checkpointed = accelerate::checkpoint_like_fsdp2(plugin, tree());
      setup_.checkpointing = {.modules = names_of(tree(), checkpointed),
                              .options = {.preserve_rng_state = false}};
    }
    const Fsdp2Mesh mesh = fsdp2_mesh(workers_);
    Fsdp2Setup fsdp{.mesh = mesh.replicas > 1 ? std::vector{mesh.replicas, mesh.shards}
                                              : std::vector{mesh.shards}};
    fsdp.reshards = accelerate::fully_shard_settings(plugin).reshard_after_forward;
    for (accelerate::FullyShardCall& call :
         accelerate::fully_shard_calls(plugin, model_.prepared, checkpointed)) {
      for (std::string& name : call.modules)
        if (name == "(root)") name.clear();
      fsdp.calls.push_back({std::move(call.modules), call.reshard_after_forward});
    }
    if (const auto dtype = compute_dtype(plugin.mixed_precision.value_or("no")))
      fsdp.mixed_precision = {.param_dtype = dtype, .reduce_dtype = dtype, .output_dtype = dtype};
    // Before accelerate 1.11 Accelerator.no_sync does nothing under FSDP2.
    setup_.loop.syncs_once = workers_.accelerate >= 11;
    if (plugin.offload_params) fsdp.offload = fsdp2::CpuOffloadPolicy{};
    const bool float8 = setup_.float8.recipe != parallel::Float8Recipe::none;
    if (float8 && plugin.cpu_ram_efficient_loading)
      throw Refusal("ValueError", {.where = "fsdp_cpu_ram_efficient_loading",
                                   .what = "accelerate refuses it with FSDP2 and torchao's fp8",
                                   .way_out = "set it to false"});
    if (plugin.cpu_ram_efficient_loading) {
      setup_.made_on = Device::meta;
      setup_.loads_from_rank_0 = true;
    } else if (plugin.ignored_modules) {
      // Efficient loading makes new parameters, so that none of those named is ignored.
      for (const std::int32_t module :
           accelerate::matching_modules(tree(), *plugin.ignored_modules, checkpointed))
        for (const std::int32_t p : accelerate::parameters_below(tree(), module))
          fsdp.ignored_parameters.push_back(tree().parameters[static_cast<std::size_t>(p)].name);
    }
    setup_.runtime = std::move(fsdp);
  }

  const ConfiguredModel& model_;
  const Workers& workers_;
  const ReadFile& read_file_;
  TrainingSetup setup_;
};

}  // namespace

TrainingSetup configured_setup(const ConfiguredModel& model, const Workers& workers,
                               const ReadFile& read_file) {
  return Setup(model, workers, read_file).make();
}

}  // namespace shardscope::eager
