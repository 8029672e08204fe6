#include "core/config/trainer/trainer_loop.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/config/trainer/training_args_fields.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_count = 1 << 20;

/// Keys that change time or memory of a step and that no rule here reads.
constexpr std::array<std::string_view, 11> not_simulated{"tf32",
                                                         "use_cpu",
                                                         "parallelism_config",
                                                         "neftune_noise_alpha",
                                                         "torch_empty_cache_steps",
                                                         "auto_find_batch_size",
                                                         "label_smoothing_factor",
                                                         "optim_args",
                                                         "optim_target_modules",
                                                         "accelerator_config",
                                                         "full_determinism"};

/// What the Trainer calls them. Source: training_args.py, OptimizerNames; trainer_optimizer.py.
/// Muon comes from tools around it.
constexpr std::string_view without_implementations[] = {"adafactor",
                                                        "adamw_8bit",
                                                        "adamw_bnb_8bit",
                                                        "lion_8bit",
                                                        "lion_32bit",
                                                        "paged_adamw",
                                                        "paged_adamw_8bit",
                                                        "paged_adamw_32bit",
                                                        "paged_lion_8bit",
                                                        "paged_lion_32bit",
                                                        "rmsprop_bnb_8bit",
                                                        "rmsprop_bnb_32bit",
                                                        "muon"};

class LoopReader {
 public:
  LoopReader(const ConfigValue& given, std::string_view file) : given_(given), file_(file) {}

  TrainerLoop read() {
    loop_.uses_deepspeed = argument("deepspeed").truthy();
    loop_.batch = count("per_device_train_batch_size", "batch");
    loop_.micro_batches = count("gradient_accumulation_steps", "accumulation");
    read_clip();
    read_optimizer();
    read_checkpointing();
    read_liger();
    for (const std::string_view key : not_simulated)
      if (differs(key)) loop_.unused.emplace_back(key);
    if (argument("eval_strategy").is_string() && !argument("eval_strategy").is("no")) {
      loop_.unused.emplace_back("eval_strategy");
      if (const ConfigValue batch = argument("per_device_eval_batch_size");
          batch.is_integer() && batch.integer() > 0)
        loop_.eval_batch = batch.integer();
    }
    return std::move(loop_);
  }

 private:
  ConfigValue argument(std::string_view name) const {
    if (const ConfigValue* value = given_.is_dict() ? given_.find(name) : nullptr) return *value;
    const TrainingArgumentField* field = find_training_argument(name);
    return field != nullptr ? field->otherwise : ConfigValue();
  }
  bool is_given(std::string_view name) const {
    return given_.is_dict() && given_.find(name) != nullptr;
  }
  bool differs(std::string_view name) const {
    return is_given(name) &&
           argument(name).repr() != find_training_argument(name)->otherwise.repr();
  }

  Error wrong(std::string_view key, std::string what, std::string way_out) const {
    return Error({.where = fmt::format("{}: {}", file_, key),
                  .what = std::move(what),
                  .way_out = std::move(way_out)});
  }

  std::int64_t count(std::string_view key, std::string_view word) {
    const ConfigValue value = argument(key);
    if (!value.is_integer() || value.integer() < 1 || value.integer() > largest_count)
      throw wrong(key, fmt::format("expected 1 to {}, got {}", largest_count, value.repr()),
                  "write a whole number");
    if (!is_given(key)) loop_.defaults.push_back(fmt::format("{} {}", word, value.integer()));
    return value.integer();
  }

  void read_clip() {
    const ConfigValue norm = argument("max_grad_norm");
    if (norm.is_null()) {
      loop_.clip = 0;
      return;
    }
    if (!norm.is_number() || !(norm.number() >= 0))
      throw wrong("max_grad_norm", fmt::format("expected a norm of 0 or more, got {}", norm.repr()),
                  "0 turns clipping off");
    loop_.clip = norm.number();
    if (!is_given("max_grad_norm"))
      loop_.defaults.push_back(fmt::format("gradients are clipped to {:.1f}", loop_.clip));
  }

  void read_optimizer() {
    const ConfigValue optim = argument("optim");
    loop_.named_optimizer = optim.str();
    for (const std::string_view name : without_implementations)
      if (optim.is(name)) {
        loop_.optimizer = std::string(name);
        return;
      }
    if (optim.is("rmsprop_bnb")) {
      loop_.optimizer = "rmsprop_bnb_32bit";
      return;
    }
    loop_.implementation = optim.is("adamw_torch_fused") ? "fused" : "foreach";
    if (optim.is("adamw_torch_fused") || optim.is("adamw_torch")) loop_.optimizer = "adamw";
    if (optim.is("sgd")) loop_.optimizer = "sgd";
    if (!is_given("optim")) loop_.defaults.emplace_back("optimizer adamw_torch_fused");
  }

  /// The old name counts where the new one is not set.
  void read_checkpointing() {
    const bool is_new = !argument("activation_checkpointing").is_null();
    const std::string_view key = is_new ? "activation_checkpointing" : "gradient_checkpointing";
    if (!argument(key).truthy()) return;
    loop_.checkpoint_every = 1;
    const ConfigValue options = argument(fmt::format("{}_kwargs", key));
    if (!options.is_dict()) return;
    const std::string name = fmt::format("{}_kwargs", key);
    if (options.get("offload").truthy())
      throw wrong(name + ".offload", "activations in the host's memory are not simulated",
                  "set it to false");
    if (const ConfigValue every = options.get("every_n_layers"); !every.is_null()) {
      if (!every.is_integer() || every.integer() < 1)
        throw wrong(name + ".every_n_layers",
                    fmt::format("expected 1 or more, got {}", every.repr()),
                    "write a whole number");
      loop_.checkpoint_every = every.integer();
    }
    loop_.reentrant = options.get("use_reentrant").truthy();
  }

  /// Keyword arguments of apply_liger_kernel_to_*; all but cross_entropy are on unless given.
  void read_liger() {
    if (!argument("use_liger_kernel").truthy()) return;
    const ConfigValue config = argument("liger_kernel_config");
    if (!config.is_dict()) {
      loop_.liger = "on";
      return;
    }
    for (const std::string_view name : {"rope", "rms_norm", "swiglu", "fused_linear_cross_entropy"})
      if (const ConfigValue* on = config.find(name); on == nullptr || on->truthy())
        loop_.liger += (loop_.liger.empty() ? "" : "+") + std::string(name);
    if (config.get("cross_entropy").truthy())
      loop_.unused.emplace_back("liger_kernel_config.cross_entropy");
  }

  const ConfigValue& given_;
  std::string_view file_;
  TrainerLoop loop_;
};

}  // namespace

TrainerLoop trainer_loop(const ConfigValue& given, std::string_view file) {
  return LoopReader(given, file).read();
}

}  // namespace shardscope
