#include "core/config/deepspeed/accelerate_prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/values/python_arithmetic.h"
#include "core/config/values/python_number.h"

namespace shardscope {
namespace {

/// Values for keys that still stand at "auto", under their long keys.
using Fillings = std::vector<std::pair<std::string, ConfigValue>>;

std::int64_t accumulation_of(const Environment& environment, std::int64_t otherwise) {
  const std::string text =
      variable(environment, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", std::to_string(otherwise));
  return python_integer(text).integer();
}

ConfigValue batch_per_device(const DeepSpeedPlugin& plugin, const DeepSpeedPreparation& given) {
  const std::string_view key = "train_micro_batch_size_per_gpu";
  if (!plugin.hf_ds_config.is_auto(key)) return plugin.hf_ds_config.value(key);
  const std::vector<std::int64_t>& sizes = given.loader_batch_sizes;
  if (sizes.empty())
    throw Refusal("ValueError",
                  {.where = std::string(key),
                   .what = "\"auto\" is taken from a data loader, and prepare() is given none",
                   .way_out = "give a number, or pass a data loader with a batch size"});
  const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
  return ConfigValue(plugin.is_train_batch_min.truthy() ? *smallest : *largest);
}

void add_batch(Fillings& fillings, const DeepSpeedPlugin& plugin, const DeepSpeedPreparation& given,
               const ConfigValue& batch) {
  if (batch.is_null()) return;
  const ConfigValue steps = plugin.hf_ds_config.value("gradient_accumulation_steps");
  const ConfigValue whole = multiplied(multiplied(batch, steps), given.world);
  fillings.emplace_back("train_micro_batch_size_per_gpu", batch);
  fillings.emplace_back("train_batch_size", floor_divided(whole, given.sequence_parallel));
}

void add_widths(Fillings& fillings, const DeepSpeedPlugin& plugin, const ModelWidths& model) {
  const std::optional<std::int64_t> width = width_for_autos(plugin.hf_ds_config, model);
  if (!width) return;
  fillings.emplace_back(hidden_size_keys()[0], *width * *width);
  fillings.emplace_back(hidden_size_keys()[1], prefetch_elements(*width));
  fillings.emplace_back(hidden_size_keys()[2], 10 * *width);
}

/// DeepSpeedPlugin.deepspeed_config_process: what is "auto" and has no filling is refused.
void fill(ConfigValue& section, const std::string& prefix, const Fillings& fillings) {
  for (ConfigValue::Entry& entry : section.entries()) {
    const std::string key = prefix + entry.key;
    if (entry.value.is_dict()) {
      fill(entry.value, key + ".", fillings);
      continue;
    }
    if (!entry.value.is("auto")) continue;
    const auto filling = std::find_if(fillings.begin(), fillings.end(),
                                      [&](const auto& f) { return f.first == key; });
    if (filling == fillings.end())
      throw Refusal("ValueError", {.where = key,
                                   .what = "accelerate has nothing to put for \"auto\" here",
                                   .way_out = "give a value"});
    entry.value = filling->second;
  }
}

void refuse_second_optimizer(const ConfigValue& config) {
  if (!config.has("optimizer")) return;
  throw Refusal("ValueError",
                {.where = "optimizer",
                 .what = "an optimizer stands in the DeepSpeed configuration and in the script",
                 .way_out = "drop it here, or use accelerate.utils.DummyOptim in the script"});
}

/// DeepSpeedPlugin.set_moe_leaf_modules.
void check_leaf_classes(const DeepSpeedPlugin& plugin, const Environment& environment,
                        const ModelWidths& model) {
  ConfigValue names = plugin.transformer_moe_cls_names;
  const std::string set = variable(environment, "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES");
  if (names.is_null() && environment.contains("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"))
    names = set;
  if (!names.is_string()) return;
  const std::string& list = names.string();
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    if (std::find(model.classes.begin(), model.classes.end(), name) == model.classes.end())
      throw Refusal("Exception",
                    {.where = "deepspeed_moe_layer_cls_names",
                     .what = fmt::format("the model has no module of class \"{}\"", name),
                     .way_out = "name a class that the model has"});
    begin = end + 1;
  }
}

/// Whether the optimizer moves to the CPU is asked of a section that "null" breaks.
void ask_offload(const ConfigValue& config) {
  const ConfigValue& zero = config.at("zero_optimization");
  if (const ConfigValue* offload = zero.find("offload_optimizer")) get_of_dict(*offload, "device");
}

}  // namespace

std::string enabled_precision(const ConfigValue& config) {
  for (const char* type : {"fp16", "bf16"})
    if (const ConfigValue* section = config.find(type))
      if (get_of_dict(*section, "enabled").truthy()) return type;
  return "no";
}

PreparedDeepSpeed prepare_deepspeed(DeepSpeedPlugin plugin, const Environment& environment,
                                    const DeepSpeedPreparation& given) {
  const std::string precision = variable(environment, "ACCELERATE_MIXED_PRECISION", "no");
  if (precision == "fp8") throw Refusal("ValueError", "fp8 needs transformer_engine or MS-AMP");
  if (plugin.enable_msamp.truthy()) throw Refusal("ModuleNotFoundError", "MS-AMP is not installed");
  plugin.set_mixed_precision(precision);
  PreparedDeepSpeed prepared{.mixed_precision = enabled_precision(plugin.deepspeed_config()),
                             .gradient_accumulation_steps =
                                 accumulation_of(environment, given.gradient_accumulation_steps),
                             .warnings = plugin.warnings};

  const ConfigValue batch = batch_per_device(plugin, given);
  const ConfigValue own_steps = prepared.gradient_accumulation_steps;
  plugin.hf_ds_config.replace_auto("gradient_accumulation_steps", own_steps);
  const ConfigValue steps = plugin.hf_ds_config.value("gradient_accumulation_steps");
  if (!(steps == own_steps))
    prepared.warnings.push_back(
        fmt::format("gradient_accumulation_steps: Accelerator has {}, the DeepSpeed configuration "
                    "{}, which is taken",
                    own_steps.str(), steps.str()));
  Fillings fillings{{"gradient_clipping", 1.0},
                    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", false}};
  add_batch(fillings, plugin, given, batch);
  refuse_second_optimizer(plugin.deepspeed_config());
  plugin.deepspeed_config().set("zero_allow_untested_optimizer", true);
  check_leaf_classes(plugin, environment, given.model);
  add_widths(fillings, plugin, given.model);
  fill(plugin.deepspeed_config(), "", fillings);
  ask_offload(plugin.deepspeed_config());
  prepared.config = plugin.deepspeed_config();
  return prepared;
}

}  // namespace shardscope
