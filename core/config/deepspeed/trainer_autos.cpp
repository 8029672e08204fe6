#include "core/config/deepspeed/trainer_autos.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/values/python_arithmetic.h"

namespace shardscope {
namespace {

/// fill_match: "auto" takes the Trainer's value; another value must equal it, unless `must_match`
/// is off.
void fill(TrainerDeepSpeedConfig& config, std::string_view key, const ConfigValue& value,
          std::string_view argument, bool must_match = true) {
  const ConfigValue present = config.hf.value(key);
  if (present.is("auto")) return config.hf.replace_auto(key, value);
  if (!must_match || present.is_null() || present == value) return;
  config.mismatches.push_back(
      fmt::format("- ds {}={} vs hf {}={}", key, present.str(), argument, value.str()));
}

/// `a or b`.
ConfigValue either(const ConfigValue& a, const ConfigValue& b) { return a.truthy() ? a : b; }

void fill_batch(TrainerDeepSpeedConfig& config, const ConfigValue& arguments, std::int64_t world,
                bool must_match) {
  const ConfigValue& micro = arguments.at("per_device_train_batch_size");
  const ConfigValue& steps = arguments.at("gradient_accumulation_steps");
  const ConfigValue train = multiplied(multiplied(ConfigValue(world), micro), steps);
  fill(config, "train_micro_batch_size_per_gpu", micro, "per_device_train_batch_size", must_match);
  fill(config, "gradient_accumulation_steps", steps, "gradient_accumulation_steps");
  fill(config, "train_batch_size", train, "train_batch_size (calculated)", must_match);
}

void fill_optimizer(TrainerDeepSpeedConfig& config, const ConfigValue& arguments) {
  const ConfigValue betas =
      ConfigValue::list({arguments.at("adam_beta1"), arguments.at("adam_beta2")});
  const ConfigValue& rate = arguments.at("learning_rate");
  fill(config, "optimizer.params.lr", rate, "learning_rate");
  fill(config, "optimizer.params.betas", betas, "adam_beta1+adam_beta2");
  fill(config, "optimizer.params.eps", arguments.at("adam_epsilon"), "adam_epsilon");
  fill(config, "optimizer.params.weight_decay", arguments.at("weight_decay"), "weight_decay");
  fill(config, "scheduler.params.warmup_min_lr", 0, "", false);
  fill(config, "scheduler.params.warmup_max_lr", rate, "learning_rate");
}

void keep_checkpoints_on_nodes(ConfigValue& config, const ConfigValue& wanted) {
  if (!wanted.truthy()) return;
  if (!config.has("checkpoint")) config.set("checkpoint", ConfigValue::dict());
  ConfigValue& checkpoint = *config.find("checkpoint");
  get_of_dict(checkpoint, {});
  checkpoint.set("use_node_local_storage", wanted);
}

void fill_precision(TrainerDeepSpeedConfig& config, const ConfigValue& arguments) {
  fill(config, "fp16.enabled", either(arguments.at("fp16"), arguments.at("fp16_full_eval")),
       "fp16|fp16_full_eval");
  fill(config, "bf16.enabled", either(arguments.at("bf16"), arguments.at("bf16_full_eval")),
       "bf16|bf16_full_eval");
  config.dtype = config.hf.is_true("bf16.enabled")   ? "torch.bfloat16"
                 : config.hf.is_true("fp16.enabled") ? "torch.float16"
                                                     : "torch.float32";
}

void fill_widths(TrainerDeepSpeedConfig& config, const ModelWidths& model) {
  const std::optional<std::int64_t> width = width_for_autos(config.hf, model);
  if (!width) return;
  const std::vector<std::string>& keys = hidden_size_keys();
  config.hf.replace_auto(keys[0], *width * *width);
  if (!config.hf.is_zero3()) return;
  config.hf.replace_auto(keys[1], prefetch_elements(*width));
  config.hf.replace_auto(keys[2], 10 * *width);
}

}  // namespace

std::int64_t warmup_steps_of(const ConfigValue& warmup_steps, std::int64_t training_steps) {
  const double steps = warmup_steps.number();
  return static_cast<std::int64_t>(
      steps >= 1 ? steps : std::ceil(static_cast<double>(training_steps) * steps));
}

TrainerDeepSpeedConfig processed_by_trainer(HfDeepSpeedConfig config, const ConfigValue& arguments,
                                            std::int64_t world, bool auto_find_batch_size) {
  TrainerDeepSpeedConfig result{.hf = std::move(config), .dtype = {}, .mismatches = {}};
  fill_batch(result, arguments, world, !auto_find_batch_size);
  fill(result, "gradient_clipping", arguments.at("max_grad_norm"), "max_grad_norm");
  fill_optimizer(result, arguments);
  keep_checkpoints_on_nodes(result.hf.config(), arguments.at("save_on_each_node"));
  fill_precision(result, arguments);
  return result;
}

void finalize_by_trainer(TrainerDeepSpeedConfig& config, const ConfigValue& arguments,
                         const ModelWidths& model, std::int64_t training_steps) {
  fill_widths(config, model);
  fill(config, "scheduler.params.total_num_steps", training_steps,
       "num_training_steps (calculated)");
  const std::int64_t warmup = warmup_steps_of(arguments.at("warmup_steps"), training_steps);
  fill(config, "scheduler.params.warmup_num_steps", std::max<std::int64_t>(1, warmup),
       "warmup_steps");
  if (config.mismatches.empty()) return;
  throw Refusal("ValueError", {.where = "deepspeed",
                               .what = fmt::format(
                                   "the DeepSpeed configuration contradicts TrainingArguments: {}",
                                   fmt::join(config.mismatches, "; ")),
                               .way_out = "set these keys to \"auto\""});
}

}  // namespace shardscope
