// What fsdp_config seems to say, and what FSDP is given.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/config/accelerate/lint_rules.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

using Entry = ConfigValue::Entry;

constexpr std::string_view section = "fsdp_config";

std::int64_t version_of(const LintContext& context) {
  if (context.plugin() != nullptr) return context.plugin()->fsdp_version;
  const Entry* entry = context.fsdp("fsdp_version");
  return entry != nullptr && (entry->value == ConfigValue(2) || entry->value.is("2")) ? 2 : 1;
}

void lint_version(LintContext& context) {
  const Entry* entry = context.fsdp("fsdp_version");
  if (entry == nullptr)
    return context.add({.rule = "version-default",
                        .severity = Severity::note,
                        .message = "without fsdp_version the launcher takes version 1",
                        .mend = "write fsdp_version: 1 or 2"},
                       0, "fsdp_config.fsdp_version");
  const std::string text = entry->value.str();
  if (text == "1" || text == "2") return;
  context.add({.rule = "unknown-version",
               .severity = Severity::error,
               .message = fmt::format("a file may say fsdp_version {}, but there are only 1 and 2: "
                                      "the workers fail, or mix the rules of both",
                                      text),
               .mend = "write 1 or 2"},
              *entry, section);
}

/// Keys of version 1 under version 2.
void lint_old_settings(LintContext& context) {
  struct Old {
    std::string_view name, message, mend;
  };
  constexpr std::array<Old, 5> old{
      Old{"fsdp_sharding_strategy", "version 2 does not look at it",
          "use fsdp_reshard_after_forward: true or false"},
      Old{"fsdp_backward_prefetch", "version 2 sets it to None, with a warning", "remove it"},
      Old{"fsdp_forward_prefetch", "version 2 does not look at it", "remove it"},
      Old{"fsdp_use_orig_params", "version 2 always keeps the original parameters", "remove it"},
      Old{"fsdp_sync_module_states",
          "version 2 does not look at it, yet the launcher refuses false beside efficient loading",
          "remove it"}};
  for (const Old& key : old)
    if (const Entry* entry = context.fsdp(key.name))
      context.add({.rule = "version-1-key",
                   .message = std::string(key.message),
                   .mend = std::string(key.mend)},
                  *entry, section);
  if (const Entry* entry = context.fsdp("fsdp_state_dict_type");
      entry != nullptr &&
      (upper_of(entry->value.str()) == "LOCAL_STATE_DICT" || entry->value.str() == "2"))
    context.add({.rule = "local-state-dict",
                 .severity = Severity::error,
                 .message = "version 2 has no LOCAL_STATE_DICT",
                 .mend = "write SHARDED_STATE_DICT"},
                *entry, section);
}

/// Keys of version 2 under version 1.
void lint_new_settings(LintContext& context) {
  const Entry* reshard = context.fsdp("fsdp_reshard_after_forward");
  if (reshard == nullptr) return;
  const Entry* strategy = context.fsdp("fsdp_sharding_strategy");
  context.add(
      {.rule = "reshard-ignored",
       .message = strategy != nullptr
                      ? "version 1 takes fsdp_sharding_strategy and drops this key"
                      : "version 1 drops this key: the launcher always sets the strategy, here to "
                        "its default FULL_SHARD",
       .mend = "write fsdp_sharding_strategy, or fsdp_version: 2 with true or false"},
      *reshard, section);
}

void lint_loading(LintContext& context, std::int64_t version) {
  const Entry* efficient = context.fsdp("fsdp_cpu_ram_efficient_loading");
  const Entry* sync = context.fsdp("fsdp_sync_module_states");
  if (efficient != nullptr && efficient->value.truthy() && sync == nullptr && version == 1)
    context.add({.rule = "efficient-loading-without-sync",
                 .severity = Severity::note,
                 .message = "only the launcher's default adds fsdp_sync_module_states; a plugin "
                            "made in code would load rank 0 alone",
                 .mend = "write fsdp_sync_module_states: true beside it"},
                *efficient, section);
  const bool off = sync != nullptr && !sync->value.truthy();
  const bool efficient_on = efficient == nullptr || efficient->value.truthy();
  if (off && efficient_on)
    context.add({.rule = "efficient-loading-without-sync",
                 .severity = Severity::error,
                 .message = "efficient loading is on (it is by default) and needs it",
                 .mend = "write fsdp_cpu_ram_efficient_loading: false as well"},
                *sync, section);
  for (const Entry* entry : {efficient, sync})
    if (entry != nullptr && entry->value.is_string() && entry->value.truthy())
      context.add(
          {.rule = "quoted-boolean",
           .message = fmt::format("the launcher's check takes the text {} for true, "
                                  "whatever it says; the workers read it{}",
                                  entry->value.repr(),
                                  context.plugin() != nullptr && !context.plugin()->warnings.empty()
                                      ? " and set sync_module_states to True"
                                      : ""),
           .mend = "remove the quotes"},
          *entry, section);
}

void lint_class_names(LintContext& context) {
  const Entry* entry = context.fsdp("fsdp_transformer_layer_cls_to_wrap");
  if (entry == nullptr) return;
  const FsdpPlugin* plugin = context.plugin();
  if (plugin != nullptr && plugin->wrap != WrapPolicy::transformer && !entry->value.is_null())
    context.add({.rule = "unused-setting",
                 .message = "class names count only under TRANSFORMER_BASED_WRAP",
                 .mend = "write fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"},
                *entry, section);
  if (entry->value.is_list())
    return context.add({.rule = "class-list",
                        .severity = Severity::error,
                        .message = fmt::format("a list becomes the text {}, split at its commas",
                                               python_quoted(entry->value.str())),
                        .mend = "write the names in one text with commas: A,B"},
                       *entry, section);
  if (!entry->value.is_string()) return;
  const std::string& text = entry->value.string();
  if (text.empty() || text.ends_with(',') || text.starts_with(',') ||
      text.find(",,") != std::string::npos)
    return context.add({.rule = "empty-class-name",
                        .severity = Severity::warning,
                        .message = "an empty class name is looked for in the model and not found: "
                                   "Accelerator.prepare fails (the questionnaire writes this)",
                        .mend = "remove the key: the model's own classes are then taken"},
                       *entry, section);
  if (text.find_first_of(" \t\n") != std::string::npos)
    context.add({.rule = "blank-in-class-name",
                 .severity = Severity::error,
                 .message = "names are split at commas and not trimmed",
                 .mend = "remove the blanks and line breaks"},
                *entry, section);
}

void lint_size(LintContext& context, const FsdpPlugin& plugin) {
  const Entry* number = context.fsdp("fsdp_min_num_params");
  if (plugin.wrap != WrapPolicy::size) {
    if (number != nullptr && !number->value.is_null())
      context.add({.rule = "unused-setting",
                   .severity = Severity::note,
                   .message = "the number counts only under SIZE_BASED_WRAP",
                   .mend = "write fsdp_auto_wrap_policy: SIZE_BASED_WRAP, or remove it"},
                  *number, section);
    return;
  }
  const double least = plugin.min_num_params->number();
  const Entry* policy = context.fsdp("fsdp_auto_wrap_policy");
  const Entry* place = number != nullptr ? number : policy;
  if (place == nullptr) return;
  if (least <= 0)
    context.add({.rule = "wraps-nothing",
                 .message = "a number of 0 switches wrapping off: the whole model is one unit",
                 .mend = "write the elements of the smallest unit, for example 10000000"},
                *place, section);
  else if (number == nullptr)
    context.add({.rule = "size-default",
                 .severity = Severity::note,
                 .message = "without fsdp_min_num_params units have at least 100000000 elements",
                 .mend = "write fsdp_min_num_params"},
                *place, section);
}

void lint_wrapping(LintContext& context, const FsdpPlugin& plugin) {
  lint_size(context, plugin);
  if (plugin.wrap == WrapPolicy::none && context.fsdp("fsdp_auto_wrap_policy") == nullptr)
    context.add({.rule = "no-wrap",
                 .message = "without fsdp_auto_wrap_policy the layers are not wrapped: all their "
                            "parameters are gathered at once",
                 .mend = "write fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"},
                0, "fsdp_config.fsdp_auto_wrap_policy");
  const PreparedModel* model = context.model();
  if (plugin.wrap != WrapPolicy::transformer || plugin.wrap_classes || model == nullptr) return;
  if (!model->facts.no_split_classes.empty()) return;
  if (const Entry* policy = context.fsdp("fsdp_auto_wrap_policy"))
    context.add({.rule = "wraps-nothing",
                 .message = "the model names no classes of its own (_no_split_modules): nothing is "
                            "wrapped",
                 .mend = "write fsdp_transformer_layer_cls_to_wrap"},
                *policy, section);
}

void lint_hybrid(LintContext& context, const FsdpPlugin& plugin) {
  if (!plugin.sharding_strategy || plugin.sharding_strategy->find("HYBRID") == std::string::npos)
    return;
  const ConfigValue machines = context.resolution().launch.arguments->get("num_machines");
  if (!(machines == ConfigValue(1))) return;
  const Entry* entry = context.fsdp("fsdp_sharding_strategy");
  if (entry == nullptr) return;
  context.add({.rule = "hybrid-on-one-machine",
               .message = "on one machine hybrid sharding replicates over a single group: it "
                          "shards as the plain strategy does",
               .mend = plugin.sharding_strategy->ends_with("ZERO2") ? "write SHARD_GRAD_OP"
                                                                    : "write FULL_SHARD"},
              *entry, section);
}

void lint_checkpointing(LintContext& context, const FsdpPlugin& plugin) {
  if (!plugin.activation_checkpointing) return;
  const Entry* entry = context.fsdp("fsdp_activation_checkpointing");
  if (entry == nullptr) return;
  context.add({.rule = "checkpointing-twice",
               .severity = Severity::note,
               .message = "the Trainer refuses it beside its own gradient_checkpointing",
               .mend = "leave gradient_checkpointing out of TrainingArguments"},
              *entry, section);
  if (plugin.wrap != WrapPolicy::none) return;
  context.add({.rule = "checkpointing-without-wrap",
               .severity = plugin.is_version(2) ? Severity::error : Severity::warning,
               .message = plugin.is_version(2)
                              ? "without a wrap policy version 2 fails in Accelerator.prepare"
                              : "without a wrap policy every single module is checkpointed",
               .mend = "write fsdp_auto_wrap_policy"},
              *entry, section);
}

void lint_ignored_modules(LintContext& context, const FsdpPlugin& plugin) {
  const Entry* entry = context.fsdp("fsdp_ignored_modules");
  if (entry == nullptr || !plugin.is_version(2) || !plugin.cpu_ram_efficient_loading) return;
  context.add({.rule = "ignored-modules-lost",
               .message = "efficient loading (on by default) replaces the parameters after they "
                          "were collected: none is ignored, all are sharded",
               .mend = "write fsdp_cpu_ram_efficient_loading: false"},
              *entry, section);
}

/// Recorded with accelerate 1.15.0 and transformers 5.24.0.
void lint_tensor_parallelism(LintContext& context, const FsdpPlugin& plugin) {
  const Resolution& r = context.resolution();
  if (!plugin.is_version(2) || !r.launch.uses("use_parallelism_config")) return;
  const std::string size = variable(r.launch.environment, "PARALLELISM_CONFIG_TP_SIZE", "1");
  const Entry* entry = context.member("parallelism_config", "parallelism_config_tp_size");
  if (size == "1" || entry == nullptr) return;
  context.add(
      {.rule = "tensor-and-fsdp2",
       .severity = Severity::error,
       .message = "Accelerator.prepare raises ImportError for a model that transformers 5.24 "
                  "loaded with a tensor-parallel plan; without such a plan every rank of "
                  "tp trains the whole model",
       .mend = fmt::format("load it with DistributedConfig(tp_size={}, fsdp_size=...), and "
                           "write distributed_type: MULTI_GPU without fsdp_config",
                           size)},
      *entry, "parallelism_config");
}

void lint_state_dict(LintContext& context, const FsdpPlugin& plugin) {
  constexpr std::int64_t large = 2'000'000'000;
  if (plugin.state_dict_type != "FULL_STATE_DICT" || context.model() == nullptr) return;
  std::int64_t elements = 0;
  for (const TreeParameter& p : context.model()->tree.parameters)
    elements += p.same_as ? 0 : p.elements();
  if (elements < large) return;
  const Entry* entry = context.fsdp("fsdp_state_dict_type");
  context.add({.rule = "full-state-dict",
               .message = fmt::format("rank 0 gathers all {} parameters at every save", elements),
               .mend = "write fsdp_state_dict_type: SHARDED_STATE_DICT"},
              entry == nullptr ? 0 : entry->line, "fsdp_config.fsdp_state_dict_type");
}

}  // namespace

void lint_fsdp(LintContext& context) {
  const std::int64_t version = version_of(context);
  lint_version(context);
  if (version == 2) lint_old_settings(context);
  if (version == 1) lint_new_settings(context);
  lint_loading(context, version);
  lint_class_names(context);
  const FsdpPlugin* plugin = context.plugin();
  if (plugin == nullptr) return;
  lint_wrapping(context, *plugin);
  lint_hybrid(context, *plugin);
  lint_checkpointing(context, *plugin);
  lint_ignored_modules(context, *plugin);
  lint_tensor_parallelism(context, *plugin);
  lint_state_dict(context, *plugin);
}

}  // namespace shardscope::accelerate
