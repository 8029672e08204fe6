// What fsdp_config of the Trainer seems to say, and what it does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/nearest_word.h"
#include "core/config/trainer/training_args_lint_rules.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

using Entry = ConfigValue::Entry;

constexpr std::int64_t large_model_elements = 10'000'000'000;

const std::vector<std::string_view> known_keys{"activation_checkpointing",
                                               "auto_wrap_policy",
                                               "backward_prefetch",
                                               "cpu_offload",
                                               "cpu_ram_efficient_loading",
                                               "forward_prefetch",
                                               "limit_all_gathers",
                                               "min_num_params",
                                               "reshard_after_forward",
                                               "state_dict_type",
                                               "sync_module_states",
                                               "transformer_layer_cls_to_wrap",
                                               "use_orig_params",
                                               "version",
                                               "xla",
                                               "xla_fsdp_grad_ckpt",
                                               "xla_fsdp_settings",
                                               "xla_fsdp_v2"};

/// Keys of accelerate and of older transformers, and what they are called here.
struct Elsewhere {
  std::string_view key;
  std::string_view mend;
};
constexpr std::array<Elsewhere, 6> elsewhere{{
    {"offload_params", "use cpu_offload"},
    {"sharding_strategy", "use reshard_after_forward"},
    {"transformer_cls_names_to_wrap", "use transformer_layer_cls_to_wrap"},
    {"backward_prefetch_policy", "use backward_prefetch, with version 1"},
    {"auto_wrap", "use auto_wrap_policy"},
    {"mixed_precision", "set bf16 or fp16 of TrainingArguments"},
}};

constexpr std::array<std::string_view, 5> only_version_1{"backward_prefetch", "forward_prefetch",
                                                         "limit_all_gathers", "sync_module_states",
                                                         "use_orig_params"};

std::string_view plain_key(std::string_view key) {
  return key.starts_with("fsdp_") ? key.substr(5) : key;
}

std::string mend_of(std::string_view key) {
  const auto* row = std::find_if(elsewhere.begin(), elsewhere.end(),
                                 [&](const Elsewhere& e) { return e.key == key; });
  if (row != elsewhere.end()) return std::string(row->mend);
  const std::optional<std::string_view> near = nearest_word(key, known_keys);
  return near ? fmt::format("did you mean \"{}\"?", *near) : "remove it";
}

void lint_wrapping(const FsdpConfigLint& lint) {
  const Entry* policy = lint.find("auto_wrap_policy");
  const Entry* elements = lint.find("min_num_params");
  const Entry* classes = lint.find("transformer_layer_cls_to_wrap");
  const bool by_size = policy != nullptr && policy->value.is("SIZE_BASED_WRAP");
  if (elements != nullptr && elements->value.truthy() && !by_size)
    lint.findings.add({.rule = "min-num-params-alone",
                       .message = "the wrap policy is TRANSFORMER_BASED_WRAP unless it is named: "
                                  "min_num_params does nothing",
                       .mend = "add \"auto_wrap_policy\": \"SIZE_BASED_WRAP\", or remove it"},
                      *elements, lint.path);
  if (by_size && (elements == nullptr || !elements->value.truthy()))
    lint.findings.add({.rule = "nothing-wrapped",
                       .message = "SIZE_BASED_WRAP without min_num_params wraps nothing: the whole "
                                  "model is one unit",
                       .mend = "add \"min_num_params\": 100000000"},
                      *policy, lint.path);
  if (by_size && classes != nullptr)
    lint.findings.add({.rule = "ignored-key",
                       .message = "SIZE_BASED_WRAP does not look at class names",
                       .mend = "remove it, or name TRANSFORMER_BASED_WRAP"},
                      *classes, lint.path);
  if (policy != nullptr && policy->value.is("NO_WRAP"))
    lint.findings.add(
        {.rule = "nothing-wrapped",
         .message = "the whole model is one unit: all parameters are gathered at once",
         .mend = "use TRANSFORMER_BASED_WRAP"},
        *policy, lint.path);
}

void lint_classes(const FsdpConfigLint& lint) {
  const Entry* entry = lint.find("transformer_layer_cls_to_wrap");
  const Entry* policy = lint.find("auto_wrap_policy");
  if (entry == nullptr || lint.run.model_classes.empty()) return;
  if (policy != nullptr && !policy->value.is("TRANSFORMER_BASED_WRAP")) return;
  ConfigValue::List names;
  if (entry->value.is_string()) names.push_back(entry->value);
  if (entry->value.is_list()) names = entry->value.elements();
  const std::vector<std::string_view> known(lint.run.model_classes.begin(),
                                            lint.run.model_classes.end());
  for (const ConfigValue& name : names) {
    if (!name.is_string()) continue;
    std::string_view rest = name.string();
    while (true) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view word = rest.substr(0, comma);
      if (std::find(known.begin(), known.end(), word) == known.end()) {
        const std::optional<std::string_view> near = nearest_word(word, known);
        lint.findings.add({.rule = "unknown-class",
                           .severity = Severity::error,
                           .message = fmt::format("the model has no module of class \"{}\"", word),
                           .mend = near ? fmt::format("did you mean \"{}\"?", *near)
                                        : "name a class that the model has"},
                          *entry, lint.path);
      }
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
}

void lint_strategy(const FsdpConfigLint& lint) {
  const Entry* entry = lint.find("reshard_after_forward");
  if (lint.version() != 1 || entry == nullptr || !entry->value.is_string()) return;
  if (upper_of(entry->value.string()) == "FULL_SHARD") return;
  lint.findings.add(
      {.rule = "strategy-overruled",
       .message = fmt::format("in version 1 the plugin's sharding_strategy stays at "
                              "FULL_SHARD, and FSDP is given that: \"{}\" has no effect",
                              entry->value.string()),
       .mend = "set FSDP_SHARDING_STRATEGY in the environment, or use version 2"},
      *entry, lint.path);
}

void lint_state_dict(const FsdpConfigLint& lint) {
  const Entry* entry = lint.find("state_dict_type");
  const bool full = entry == nullptr || upper_of(entry->value.str()) == "FULL_STATE_DICT";
  if (entry != nullptr && lint.version() == 2 && upper_of(entry->value.str()) == "LOCAL_STATE_DICT")
    lint.findings.add({.rule = "local-state-dict",
                       .severity = Severity::error,
                       .message = "version 2 has no LOCAL_STATE_DICT and refuses it",
                       .mend = "use SHARDED_STATE_DICT"},
                      *entry, lint.path);
  if (!full) return;
  const bool large = lint.run.model_elements.value_or(0) >= large_model_elements;
  lint.findings.add(
      {.rule = "full-state-dict",
       .severity = large ? Severity::warning : Severity::note,
       .message = large
                      ? fmt::format("every checkpoint gathers the whole model and its optimizer on "
                                    "rank 0: {:.0f} GiB in float32",
                                    static_cast<double>(*lint.run.model_elements) * 12 / (1 << 30))
                      : "transformers saves FULL_STATE_DICT unless told otherwise (accelerate: "
                        "SHARDED_STATE_DICT in version 2)",
       .mend = "write \"state_dict_type\": \"SHARDED_STATE_DICT\""},
      entry != nullptr ? entry->line : 0,
      (lint.path.empty() ? "" : lint.path + ".") + "state_dict_type");
}

void lint_loading(const FsdpConfigLint& lint) {
  const Entry* loading = lint.find("cpu_ram_efficient_loading");
  const Entry* sync = lint.find("sync_module_states");
  if (lint.version() != 1 || loading == nullptr || sync == nullptr) return;
  if (lower_of(loading->value.str()) != "true" || lower_of(sync->value.str()) != "false") return;
  lint.findings.add({.rule = "loading-needs-sync",
                     .message = "with cpu_ram_efficient_loading the parameters must be sent to the "
                                "other ranks: sync_module_states is set to true",
                     .mend = "remove sync_module_states"},
                    *sync, lint.path);
}

void lint_version(const FsdpConfigLint& lint) {
  const Entry* entry = lint.find("version");
  if (entry == nullptr || lint.version() == 2) return;
  lint.findings.add(
      {.rule = "version",
       .message = lint.version() == 1
                      ? "this asks for FSDP1, which transformers 5 deprecates and will remove"
                      : "there are versions 1 and 2; others are taken for a kind of 1",
       .mend = "write version 2"},
      *entry, lint.path);
}

}  // namespace

const Entry* FsdpConfigLint::find(std::string_view key) const {
  // A key with the prefix is moved over the one without.
  const Entry* prefixed = entry_of(config, "fsdp_" + std::string(key));
  return prefixed != nullptr ? prefixed : entry_of(config, key);
}

std::int64_t FsdpConfigLint::version() const {
  const Entry* entry = find("version");
  if (entry == nullptr) return 2;
  const std::string text = entry->value.str();
  return text == "1" || text == "1.0" ? 1 : text == "2" || text == "2.0" ? 2 : 3;
}

void lint_fsdp_keys(const FsdpConfigLint& lint) {
  int left = most_unknown_keys;
  for (const Entry& entry : lint.config.entries()) {
    const std::string_view key = plain_key(entry.key);
    const bool known = std::find(known_keys.begin(), known_keys.end(), key) != known_keys.end();
    if (!known && left-- == 0) break;
    if (!known)
      lint.findings.add({.rule = "ignored-key",
                         .message = "the Trainer does not know the key and passes over it silently",
                         .mend = mend_of(key)},
                        entry, lint.path);
    const bool other_version =
        std::find(only_version_1.begin(), only_version_1.end(), key) != only_version_1.end();
    if (other_version && lint.version() == 2)
      lint.findings.add({.rule = "other-version",
                         .message = "version 2, which transformers takes by default, does not look "
                                    "at this key",
                         .mend = "remove it"},
                        entry, lint.path);
    if (key != entry.key && entry_of(lint.config, key) != nullptr)
      lint.findings.add({.rule = "two-spellings",
                         .message = fmt::format("\"{}\" stands too: the key with fsdp_ wins", key),
                         .mend = "keep one of them"},
                        entry, lint.path);
  }
}

void lint_fsdp_values(const FsdpConfigLint& lint) {
  lint_version(lint);
  lint_wrapping(lint);
  lint_classes(lint);
  lint_strategy(lint);
  lint_state_dict(lint);
  lint_loading(lint);
}

}  // namespace shardscope
