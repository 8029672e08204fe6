// Keys: those that nobody reads, and those that stand twice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "core/base/nearest_word.h"
#include "core/config/accelerate/lint_rules.h"

namespace shardscope::accelerate {
namespace {

/// Sections, how their keys begin, and keys that no flag of the launcher stands for.
struct Section {
  std::string_view name;
  std::string_view prefix;
  std::vector<std::string_view> others;
};

const std::vector<Section>& sections() {
  static const std::vector<Section> all{
      {"fsdp_config", "fsdp_", {"fsdp_ignored_modules"}},
      {"fp8_config", "fp8_", {}},
      {"dynamo_config", "dynamo_", {}},
      {"megatron_lm_config", "megatron_lm_", {}},
      {"parallelism_config", "parallelism_config_", {}},
      {"mpirun_config", "mpirun_", {"mpirun_ccl", "bind-to"}},
      {"deepspeed_config",
       "",
       {"deepspeed_config_file", "zero_stage", "offload_optimizer_device", "offload_param_device",
        "offload_optimizer_nvme_path", "offload_param_nvme_path", "gradient_accumulation_steps",
        "gradient_clipping", "zero3_init_flag", "zero3_save_16bit_model", "deepspeed_hostfile",
        "deepspeed_exclusion_filter", "deepspeed_inclusion_filter", "deepspeed_multinode_launcher",
        "deepspeed_moe_layer_cls_names"}}};
  return all;
}

std::vector<std::string_view> known_keys(const Section& section) {
  std::vector<std::string_view> known = section.others;
  if (section.prefix.empty()) return known;
  for (const Flag& flag : launch_flags())
    if (flag.name.starts_with(section.prefix)) known.push_back(flag.name);
  return known;
}

void unknown_key(LintContext& context, const Section& section, const ConfigValue::Entry& entry,
                 const std::vector<std::string_view>& known) {
  const std::string name = with_prefix(section.name, entry.key);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string prefixed = std::string(section.prefix) + entry.key;
  if (std::find(known.begin(), known.end(), prefixed) != known.end())
    return context.add(
        {.rule = "missing-prefix",
         .message = fmt::format("the key is lost: in {} accelerate adds no prefix", section.name),
         .mend = fmt::format("write \"{}\"", prefixed)},
        entry, section.name);
  const auto nearest = nearest_word(name, known);
  context.add({.rule = "ignored-key",
               .message = "accelerate does not know the key and ignores it silently",
               .mend = nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "remove it"},
              entry, section.name);
}

void lint_unknown(LintContext& context) {
  for (const Section& section : sections()) {
    const ConfigValue* own = context.section(section.name);
    if (own == nullptr) continue;
    const auto known = known_keys(section);
    for (const ConfigValue::Entry& entry : own->entries())
      if (entry.key_type == "str") unknown_key(context, section, entry, known);
  }
}

/// One key in two spellings, "sharding_strategy" and "fsdp_sharding_strategy".
void lint_two_spellings(LintContext& context) {
  for (const Section& section : sections()) {
    const ConfigValue* own = context.section(section.name);
    if (own == nullptr) continue;
    for (const ConfigValue::Entry& entry : own->entries()) {
      if (entry.key_type != "str") continue;
      const ConfigValue::Entry* last =
          context.member(section.name, with_prefix(section.name, entry.key));
      if (last == nullptr || last == &entry || last->key == entry.key) continue;
      context.add({.rule = "duplicate-key",
                   .message = fmt::format("line {} says the same key in another spelling; that one "
                                          "counts",
                                          last->line),
                   .mend = "keep one of them"},
                  entry, section.name);
    }
  }
}

void lint_duplicates(LintContext& context, const ConfigValue& value, const std::string& path) {
  if (value.is_list())
    for (const ConfigValue& element : value.elements()) lint_duplicates(context, element, path);
  if (!value.is_dict()) return;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const DuplicateKey& twice : value.duplicates())
    context.add({.rule = "duplicate-key",
                 .message = fmt::format("the key stands in line {} and in line {}; the last one "
                                        "counts",
                                        twice.first_line, twice.line),
                 .mend = "keep one of them"},
                twice.line, prefix + twice.key);
  for (const ConfigValue::Entry& entry : value.entries())
    lint_duplicates(context, entry.value, prefix + entry.key);
}

/// Variables that the launcher writes even where the value is None.
void lint_null(LintContext& context) {
  constexpr std::array<std::string_view, 11> always{"fsdp_version",
                                                    "fsdp_sharding_strategy",
                                                    "fsdp_reshard_after_forward",
                                                    "fsdp_offload_params",
                                                    "fsdp_min_num_params",
                                                    "fsdp_forward_prefetch",
                                                    "fsdp_use_orig_params",
                                                    "fsdp_cpu_ram_efficient_loading",
                                                    "fsdp_sync_module_states",
                                                    "fsdp_activation_checkpointing",
                                                    "fsdp_activation_checkpointing_offload"};
  for (const std::string_view name : always) {
    const ConfigValue::Entry* entry = context.fsdp(name);
    if (entry == nullptr || !entry->value.is_null()) continue;
    context.add({.rule = "null-value",
                 .message = "null becomes the text \"None\" in the workers, not the default",
                 .mend = "remove the key, or give a value"},
                *entry, "fsdp_config");
  }
}

}  // namespace

void lint_keys(LintContext& context) {
  lint_duplicates(context, context.file(), {});
  lint_two_spellings(context);
  lint_unknown(context);
  lint_null(context);
}

}  // namespace shardscope::accelerate
