#include "core/config/accelerate/prepared.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/config/accelerate/python_rules.h"
#include "core/config/accelerate/wrapped_modules.h"
#include "core/config/deepspeed/accelerate_plugin.h"
#include "core/config/deepspeed/accelerate_prepare.h"
#include "core/config/values/python_arithmetic.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

ConfigValue names_of(const ModuleTree& tree, const std::vector<std::int32_t>& modules) {
  ConfigValue::List names;
  for (const std::int32_t m : modules)
    names.emplace_back(tree.modules[static_cast<std::size_t>(m)].name);
  return ConfigValue(std::move(names));
}

class Accelerator {
 public:
  Accelerator(const PrepareRequest& request, const PreparedModel& model)
      : request_(request), model_(model) {}

  Prepared prepare() {
    const bool uses_deepspeed = flag("ACCELERATE_USE_DEEPSPEED");
    const bool uses_fsdp = flag("ACCELERATE_USE_FSDP");
    if (uses_deepspeed)
      deepspeed_ = make_deepspeed_plugin(ConfigValue::dict(), environment(), request_.read_file);
    if (uses_fsdp) fsdp_ = make_fsdp_plugin(environment());
    if (flag("ACCELERATE_USE_PARALLELISM_CONFIG"))
      out_.parallelism = make_parallelism(environment());
    out_.num_processes = request_.world;
    choose_type();
    check_mesh();
    out_.gradient_accumulation_steps =
        integer_of(variable(environment(), "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1"),
                   "gradient_accumulation_steps");
    hand_on();
    return std::move(out_);
  }

 private:
  const Environment& environment() const { return request_.environment; }
  bool flag(std::string_view name) const {
    return lower_of(variable(environment(), name, "false")) == "true";
  }
  bool is_fsdp2() const { return fsdp_ && !deepspeed_ && fsdp_->is_version(2); }

  /// Source: state.py, AcceleratorState.__init__.
  void choose_type() {
    const bool affinity = str_to_bool(variable(environment(), "ACCELERATE_CPU_AFFINITY", "0"));
    if (affinity && !request_.has_nvidia_ml)
      throw Refusal("ImportError", {.where = {},
                                    .what = "CPU affinity needs nvidia-ml-py",
                                    .way_out = "pip install nvidia-ml-py"});
    out_.mixed_precision = lower_of(variable(environment(), "ACCELERATE_MIXED_PRECISION", "no"));
    if (deepspeed_) {
      out_.distributed_type = "DEEPSPEED";
      return;
    }
    if (out_.parallelism && out_.parallelism->cp > 1) {
      if (!fsdp_) throw Refusal("ValueError", "cp_size above 1 needs FSDP");
      if (fsdp_->is_version(1)) throw Refusal("ValueError", "cp_size above 1 needs fsdp_version 2");
    }
    out_.distributed_type = fsdp_ ? "FSDP" : "MULTI_GPU";
    if (fsdp_ && out_.mixed_precision != "no") set_mixed_precision(*fsdp_, out_.mixed_precision);
    if (!flag("ACCELERATE_USE_MEGATRON_LM")) return;
    throw Refusal("ImportError", {.where = {},
                                  .what = "Megatron-LM is not part of this prediction",
                                  .way_out = "use FSDP or DeepSpeed"});
  }

  void check_mesh() {
    if (!out_.parallelism) return;
    mesh_ = out_.parallelism->fsdp_mesh();
    check_parallelism(*out_.parallelism, {.world = request_.world,
                                          .is_fsdp = fsdp_ && !deepspeed_,
                                          .is_fsdp2 = is_fsdp2(),
                                          .is_deepspeed = deepspeed_.has_value()});
  }

  void hand_on() {
    if (deepspeed_) return to_deepspeed();
    const bool has_tp = out_.parallelism && out_.parallelism->tp > 1;
    if (is_fsdp2()) return to_fully_shard();
    if (has_tp)
      throw Refusal("NotImplementedError",
                    "tensor parallelism needs a model that transformers loaded with a tp_plan");
    if (fsdp_) return to_fsdp1();
    out_.ddp_kwargs = ConfigValue::dict();
  }

  void to_deepspeed() {
    const std::int64_t sp = out_.parallelism ? out_.parallelism->sp : 1;
    PreparedDeepSpeed prepared =
        prepare_deepspeed(std::move(*deepspeed_), environment(),
                          {.world = request_.world,
                           .loader_batch_sizes = request_.loader_batch_sizes,
                           .sequence_parallel = sp,
                           .model = model_.widths});
    out_.mixed_precision = prepared.mixed_precision;
    out_.gradient_accumulation_steps = prepared.gradient_accumulation_steps;
    out_.deepspeed_config = std::move(prepared.config);
    out_.warnings = std::move(prepared.warnings);
  }

  void to_fsdp1() {
    set_auto_wrap_policy(*fsdp_, model_.tree, model_.facts.no_split_classes);
    const ConfigValue fields = plugin_fields(*fsdp_);
    ConfigValue ignored;
    if (fsdp_->ignored_modules)
      ignored = names_of(model_.tree, matching_modules(model_.tree, *fsdp_->ignored_modules, {}));
    // The strategy that the launcher always sets comes before the one of reshard_after_forward.
    const ConfigValue strategy = fsdp_->sharding_strategy ? ConfigValue(*fsdp_->sharding_strategy)
                                                          : fsdp_->reshard_after_forward;
    out_.fsdp1_kwargs = ConfigValue::dict({{"sharding_strategy", strategy},
                                           {"cpu_offload", cpu_offload(*fsdp_)},
                                           {"auto_wrap_policy", auto_wrap_policy(*fsdp_)},
                                           {"mixed_precision", mixed_precision_policy(*fsdp_)},
                                           {"sync_module_states", fields.at("sync_module_states")},
                                           {"backward_prefetch", fields.at("backward_prefetch")},
                                           {"forward_prefetch", fields.at("forward_prefetch")},
                                           {"use_orig_params", fields.at("use_orig_params")},
                                           {"ignored_modules", ignored},
                                           {"limit_all_gathers", true}});
    if (fsdp_->activation_checkpointing)
      out_.checkpointed_modules =
          checkpoint_like_fsdp1(*fsdp_, model_.tree).wrapper_names(model_.tree);
  }

  void to_fully_shard() {
    set_auto_wrap_policy(*fsdp_, model_.tree, model_.facts.no_split_classes);
    Checkpointed checkpointed;
    if (fsdp_->activation_checkpointing) {
      checkpointed = checkpoint_like_fsdp2(*fsdp_, model_.tree);
      out_.checkpointed_modules = checkpointed.wrapper_names(model_.tree);
    }
    out_.fully_shard_shared = shared_arguments(checkpointed);
    out_.fully_shard_calls = fully_shard_calls(*fsdp_, model_, checkpointed);
  }

  ConfigValue shared_arguments(const Checkpointed& checkpointed) const {
    FsdpPlugin without_precision = *fsdp_;
    ConfigValue policy = mixed_precision_policy(*fsdp_);
    if (policy.is_null()) {
      without_precision.mixed_precision = "bf16";
      policy = mixed_precision_policy(without_precision);
      for (const char* type : {"param_dtype", "reduce_dtype", "output_dtype"})
        policy.set(type, ConfigValue());
    }
    ConfigValue shared =
        ConfigValue::dict({{"offload_policy", cpu_offload(*fsdp_)}, {"mp_policy", policy}});
    if (!mesh_.is_null()) shared.set("mesh", mesh_);
    if (fsdp_->ignored_modules) add_ignored(shared, checkpointed);
    return shared;
  }

  /// The parameters are collected before efficient loading moves the model to the meta device,
  /// which makes new ones: then none of them is in the model any more.
  void add_ignored(ConfigValue& shared, const Checkpointed& checkpointed) const {
    std::set<std::int32_t> parameters;
    for (const std::int32_t module :
         matching_modules(model_.tree, *fsdp_->ignored_modules, checkpointed))
      parameters.merge(parameters_below(model_.tree, module));
    std::vector<std::string> names;
    for (const std::int32_t p : parameters)
      names.push_back(model_.tree.parameters[static_cast<std::size_t>(p)].name);
    std::sort(names.begin(), names.end());
    shared.set("ignored_params", ConfigValue(ConfigValue::List(names.begin(), names.end())));
    shared.set("ignored_params_still_in_model",
               fsdp_->cpu_ram_efficient_loading ? 0 : static_cast<std::int64_t>(names.size()));
  }

  const PrepareRequest& request_;
  const PreparedModel& model_;
  Prepared out_;
  std::optional<DeepSpeedPlugin> deepspeed_;
  std::optional<FsdpPlugin> fsdp_;
  ConfigValue mesh_;
};

}  // namespace

Prepared prepare(const PrepareRequest& request, const PreparedModel& model) {
  return Accelerator(request, model).prepare();
}

}  // namespace shardscope::accelerate
