#include "core/config/trainer/training_args_lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/base/nearest_word.h"
#include "core/base/refusal.h"
#include "core/config/accelerate/fsdp_plugin_arguments.h"
#include "core/config/deepspeed/lint.h"
#include "core/config/trainer/training_args.h"
#include "core/config/trainer/training_args_fields.h"
#include "core/config/trainer/training_args_fsdp.h"
#include "core/config/trainer/training_args_lint_rules.h"
#include "core/config/values/config_json.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

using Entry = ConfigValue::Entry;

int line_in(const std::string& where, const std::string& file) {
  int line = 0;
  if (where.starts_with(file + ":"))
    std::from_chars(where.data() + file.size() + 1, where.data() + where.size(), line);
  return line;
}

/// The dict in a file; nothing, and a finding, where it is none.
std::optional<ConfigValue> read(std::string_view text, const std::string& file,
                                FindingList& findings) {
  const auto unreadable = [&](const std::string& what, int line) {
    findings.add({.rule = "unreadable",
                  .severity = Severity::error,
                  .message = what,
                  .mend = "write plain JSON: { \"key\": value, ... }"},
                 line, "");
  };
  try {
    ConfigValue config = read_json(text, file);
    if (config.is_dict()) return config;
    unreadable("expected { ... } with keys", config.line());
  } catch (const Error& error) {
    unreadable(error.parts().what, line_in(error.parts().where, file));
  }
  return std::nullopt;
}

/// Arguments of older transformers that are gone, and what takes their place.
struct Gone {
  std::string_view key;
  std::string_view mend;
};
constexpr std::array<Gone, 10> gone{{
    {"fsdp_min_num_params", "use fsdp_config: {\"min_num_params\": ...} with SIZE_BASED_WRAP"},
    {"fsdp_transformer_layer_cls_to_wrap",
     "use fsdp_config: {\"transformer_layer_cls_to_wrap\": [...]}"},
    {"sharded_ddp", "use fsdp"},
    {"evaluation_strategy", "use eval_strategy"},
    {"no_cuda", "use use_cpu"},
    {"per_gpu_train_batch_size", "use per_device_train_batch_size"},
    {"warmup_ratio", "use warmup_steps with a share below 1"},
    {"half_precision_backend", "remove it"},
    {"fp16_opt_level", "remove it"},
    {"overwrite_output_dir", "remove it"},
}};

void lint_unknown(const ConfigValue& arguments, FindingList& findings) {
  int left = most_unknown_keys;
  std::vector<std::string_view> known;
  for (const TrainingArgumentField& field : training_argument_fields()) known.push_back(field.name);
  for (const Entry& entry : arguments.entries()) {
    if (find_training_argument(entry.key) != nullptr) continue;
    if (left-- == 0) break;
    const auto* row =
        std::find_if(gone.begin(), gone.end(), [&](const Gone& g) { return g.key == entry.key; });
    const std::optional<std::string_view> near = nearest_word(entry.key, known);
    findings.add({.rule = "unknown-argument",
                  .severity = Severity::error,
                  .message = "TrainingArguments of transformers 5 has no such argument and raises "
                             "TypeError",
                  .mend = row != gone.end() ? std::string(row->mend)
                          : near            ? fmt::format("did you mean \"{}\"?", *near)
                                            : "remove it"},
                 entry, "");
  }
  for (const DuplicateKey& duplicate : arguments.duplicates())
    findings.add({.rule = "duplicate-key",
                  .message = fmt::format("the key stands in line {} too; the later one counts",
                                         duplicate.first_line),
                  .mend = "keep one of them"},
                 duplicate.line, duplicate.key);
}

void lint_fsdp_word(const ConfigValue& arguments, FindingList& findings) {
  const Entry* fsdp = entry_of(arguments, "fsdp");
  const Entry* config = entry_of(arguments, "fsdp_config");
  const bool on = fsdp != nullptr && fsdp->value.truthy();
  if (!on && config != nullptr && !config->value.is_null())
    findings.add({.rule = "fsdp-off",
                  .message = "without fsdp the Trainer does not look at fsdp_config",
                  .mend = "add \"fsdp\": true"},
                 *config, "");
  if (on && (fsdp->value.is_string() || fsdp->value.is_list()))
    findings.add(
        {.rule = "fsdp-as-words",
         .message = "words in fsdp are deprecated in transformers 5: auto_wrap says nothing, "
                    "and a key of fsdp_config overrules the others",
         .mend = "write \"fsdp\": true, and reshard_after_forward and cpu_offload in "
                 "fsdp_config"},
        *fsdp, "");
  const Entry* deepspeed = entry_of(arguments, "deepspeed");
  if (on && deepspeed != nullptr && deepspeed->value.truthy())
    findings.add({.rule = "fsdp-and-deepspeed",
                  .severity = Severity::error,
                  .message = "FSDP and DeepSpeed are both on, which the Trainer refuses",
                  .mend = "drop one of them"},
                 *deepspeed, "");
}

/// A strategy among the words of fsdp, other than full_shard; empty: none.
std::string strategy_word(const ConfigValue& fsdp) {
  const std::string text = fsdp.str();
  for (const char* word : {"hybrid_shard_zero2", "hybrid_shard", "shard_grad_op", "no_shard"})
    if (text.find(word) != std::string::npos) return word;
  return {};
}

/// Version 1 keeps the plugin's own strategy. Source: accelerate 1.15.0 utils/dataclasses.py:
/// sharding_strategy has a default, and wins over reshard_after_forward.
void lint_overruled_word(const ConfigValue& arguments, const ConfigValue& fsdp_config,
                         FindingList& findings) {
  const Entry* fsdp = entry_of(arguments, "fsdp");
  if (fsdp == nullptr || !fsdp_config.is_dict()) return;
  const bool version_1 = fsdp_config.get("version") == ConfigValue(1) ||
                         fsdp_config.get("fsdp_version") == ConfigValue(1);
  const bool named_again =
      fsdp_config.has("reshard_after_forward") || fsdp_config.has("fsdp_reshard_after_forward");
  const std::string word = strategy_word(fsdp->value);
  if (!version_1 || named_again || word.empty()) return;
  findings.add({.rule = "strategy-overruled",
                .message = "in version 1 the plugin's sharding_strategy stays at FULL_SHARD, and "
                           "FSDP is given that: " +
                           word + " has no effect",
                .mend = "set FSDP_SHARDING_STRATEGY in the environment, or use version 2"},
               *fsdp, "");
}

bool is_true(const ConfigValue& arguments, std::string_view key) {
  return arguments.get(key) == ConfigValue(true);
}

void lint_checkpointing(const ConfigValue& arguments, const ConfigValue& fsdp_config,
                        FindingList& findings) {
  if (!arguments.get("fsdp").truthy()) return;
  for (const char* key : {"activation_checkpointing", "gradient_checkpointing"}) {
    const Entry* entry = entry_of(arguments, key);
    if (entry == nullptr || !entry->value.truthy()) continue;
    ConfigValue own = fsdp_config.get("activation_checkpointing");
    if (own.is_null()) own = fsdp_config.get("fsdp_activation_checkpointing");
    const bool both = lower_of(own.str()) == "true";
    findings.add(
        {.rule = "checkpointing-twice",
         .severity = both ? Severity::error : Severity::warning,
         .message = both
                        ? "it is set for the Trainer and in fsdp_config, which the Trainer refuses"
                        : "under FSDP the Trainer's own checkpointing gathers parameters once more "
                          "in backward",
         .mend = both ? "remove it here"
                      : "set \"activation_checkpointing\": true in fsdp_config instead"},
        *entry, "");
  }
}

/// Source: transformers 5.24 training_args.py, OptimizerNames, with names of 4.
constexpr std::string_view optimizers[] = {"adamw_hf",
                                           "adamw_apex_fused",
                                           "adamw_torch",
                                           "adamw_torch_fused",
                                           "adamw_torch_xla",
                                           "adamw_torch_npu_fused",
                                           "adafactor",
                                           "adamw_anyprecision",
                                           "adamw_torch_4bit",
                                           "adamw_torch_8bit",
                                           "ademamix",
                                           "sgd",
                                           "adagrad",
                                           "adamw_bnb_8bit",
                                           "adamw_8bit",
                                           "ademamix_8bit",
                                           "lion_8bit",
                                           "lion_32bit",
                                           "paged_adamw",
                                           "paged_adamw_32bit",
                                           "paged_adamw_8bit",
                                           "paged_ademamix_32bit",
                                           "paged_ademamix_8bit",
                                           "paged_lion_32bit",
                                           "paged_lion_8bit",
                                           "rmsprop",
                                           "rmsprop_bnb",
                                           "rmsprop_bnb_8bit",
                                           "rmsprop_bnb_32bit",
                                           "galore_adamw",
                                           "galore_adamw_8bit",
                                           "galore_adafactor",
                                           "galore_adamw_layerwise",
                                           "galore_adamw_8bit_layerwise",
                                           "galore_adafactor_layerwise",
                                           "lomo",
                                           "adalomo",
                                           "grokadamw",
                                           "schedule_free_radam",
                                           "schedule_free_adamw",
                                           "schedule_free_sgd",
                                           "apollo_adamw",
                                           "apollo_adamw_layerwise",
                                           "stable_adamw"};

void lint_optimizer(const ConfigValue& arguments, const TrainerRun& run, FindingList& findings) {
  const Entry* optim = entry_of(arguments, "optim");
  if (optim == nullptr || !optim->value.is_string()) return;
  const std::string& name = optim->value.string();
  if (std::ranges::find(run.more_optimizers, name) != run.more_optimizers.end()) return;
  if (std::ranges::find(optimizers, name) != std::end(optimizers)) return;
  const auto near = nearest_word(name, {std::begin(optimizers), std::end(optimizers)});
  findings.add(
      {.rule = "refused-value",
       .severity = Severity::error,
       .message = fmt::format("transformers raises ValueError: {} is not one of OptimizerNames",
                              optim->value.repr()),
       .mend = near ? fmt::format("did you mean \"{}\"?", *near)
                    : "write one of transformers' names, such as adamw_torch_fused"},
      *optim, "");
}

void add_raised(const Error& error, int line, FindingList& findings) {
  const auto* refusal = dynamic_cast<const Refusal*>(&error);
  findings.add(
      {.rule = "refused-value",
       .severity = Severity::error,
       .message =
           fmt::format("transformers raises {}: {}",
                       refusal != nullptr ? refusal->exception() : "an error", error.parts().what),
       .mend = error.parts().way_out.empty() ? "give what is expected" : error.parts().way_out},
      line, error.parts().where);
}

/// What TrainingArguments and the plugin raise, but for what the rules say already.
void lint_raised(const ConfigValue& arguments, const TrainerRun& run, FindingList& findings) {
  ConfigValue known = ConfigValue::dict();
  for (const Entry& entry : arguments.entries())
    if (find_training_argument(entry.key) != nullptr && entry.key != "deepspeed")
      known.set(entry.key, entry.value);
  const ReadFile none = [](const std::string&) { return std::nullopt; };
  try {
    const TrainingArguments made =
        make_training_arguments(known, {}, run.read_file ? run.read_file : none);
    if (!made.fsdp_plugin_args.is_null())
      accelerate::make_fsdp_plugin(made.fsdp_plugin_args, made.environment);
  } catch (const Error& error) {
    const std::string& where = error.parts().where;
    const Entry* entry = entry_of(arguments, std::string_view(where).substr(0, where.find('.')));
    add_raised(error, entry != nullptr ? entry->line : 0, findings);
  }
}

void lint_saving(const ConfigValue& arguments, const ConfigValue& fsdp_config,
                 FindingList& findings) {
  const Entry* only = entry_of(arguments, "save_only_model");
  if (only == nullptr || !is_true(arguments, "save_only_model")) return;
  const bool sharded = arguments.get("fsdp").truthy() || arguments.get("deepspeed").truthy();
  if (sharded && is_true(arguments, "load_best_model_at_end"))
    findings.add({.rule = "save-only-model",
                  .severity = Severity::error,
                  .message = "it does not go with load_best_model_at_end under FSDP or DeepSpeed",
                  .mend = "drop one of them"},
                 *only, "");
  ConfigValue type = fsdp_config.get("fsdp_state_dict_type");
  if (type.is_null()) type = fsdp_config.get("state_dict_type");
  if (arguments.get("fsdp").truthy() && upper_of(type.str()) == "SHARDED_STATE_DICT")
    findings.add({.rule = "save-only-model",
                  .severity = Severity::error,
                  .message = "it does not go with state_dict_type SHARDED_STATE_DICT",
                  .mend = "drop it, or use FULL_STATE_DICT"},
                 *only, "");
}

/// fsdp_config as a dict: written out, or as JSON text, whose lines are those of the key.
ConfigValue config_of(const ConfigValue& arguments) {
  const Entry* entry = entry_of(arguments, "fsdp_config");
  if (entry == nullptr || entry->value.is_dict())
    return entry != nullptr ? entry->value : ConfigValue::dict();
  if (!entry->value.is_string() || !entry->value.string().starts_with('{'))
    return ConfigValue::dict();
  try {
    ConfigValue config = read_json(entry->value.string(), entry->key);
    for (Entry& member : config.entries()) member.line = entry->line;
    return config;
  } catch (const Error&) {
    return ConfigValue::dict();  // told by what transformers raises
  }
}

void add_all(std::vector<Finding>& findings, std::vector<Finding> more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

/// The file that an argument names, if it names one that can be read.
std::optional<std::string> named_file(const ConfigValue& arguments, std::string_view key,
                                      const TrainerRun& run) {
  const ConfigValue value = arguments.get(key);
  if (!value.is_string() || value.string().starts_with('{') || !run.read_file) return std::nullopt;
  return run.read_file(value.string());
}

void lint_config(const ConfigValue& config, const TrainerRun& run, FindingList& findings,
                 const std::string& path) {
  const FsdpConfigLint lint{.config = config, .run = run, .findings = findings, .path = path};
  lint_fsdp_keys(lint);
  lint_fsdp_values(lint);
}

}  // namespace

std::vector<Finding> lint_training_arguments(std::string_view text, const std::string& file,
                                             const TrainerRun& run) {
  FindingList findings(file);
  const std::optional<ConfigValue> arguments = read(text, file, findings);
  if (!arguments) return findings.take();
  lint_unknown(*arguments, findings);
  lint_fsdp_word(*arguments, findings);
  const ConfigValue fsdp_config = config_of(*arguments);
  const bool on = arguments->get("fsdp").truthy();
  const std::optional<std::string> own = named_file(*arguments, "fsdp_config", run);
  if (on && !own) lint_config(fsdp_config, run, findings, "fsdp_config");
  lint_overruled_word(*arguments, fsdp_config, findings);
  lint_checkpointing(*arguments, fsdp_config, findings);
  lint_optimizer(*arguments, run, findings);
  lint_saving(*arguments, fsdp_config, findings);
  lint_raised(*arguments, run, findings);
  std::vector<Finding> all = findings.take();
  if (own && on) add_all(all, lint_fsdp_config(*own, arguments->get("fsdp_config").string(), run));
  if (const auto other = named_file(*arguments, "deepspeed", run))
    add_all(all, lint_deepspeed_config(*other, arguments->get("deepspeed").string(),
                                       {.model_elements = run.model_elements}));
  return all;
}

std::vector<Finding> lint_fsdp_config(std::string_view text, const std::string& file,
                                      const TrainerRun& run) {
  FindingList findings(file);
  const std::optional<ConfigValue> config = read(text, file, findings);
  if (!config) return findings.take();
  lint_config(*config, run, findings, "");
  try {
    const FsdpArguments made = process_fsdp_arguments(
        ConfigValue(true), *config, false, [](const std::string&) { return std::nullopt; });
    if (!made.plugin_args.is_null()) accelerate::make_fsdp_plugin(made.plugin_args, {});
  } catch (const Error& error) {
    add_raised(error, 0, findings);
  }
  return findings.take();
}

}  // namespace shardscope
