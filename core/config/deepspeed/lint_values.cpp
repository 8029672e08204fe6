// Values of a DeepSpeed configuration that are refused, "auto", or meant in other units.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/refusal.h"
#include "core/config/deepspeed/deepspeed_config.h"
#include "core/config/deepspeed/lint_rules.h"
#include "core/config/deepspeed/precision_config.h"
#include "core/config/deepspeed/removed_keys.h"
#include "core/config/deepspeed/zero_config.h"

namespace shardscope {
namespace {

using Entry = ConfigValue::Entry;

std::int64_t line_in(std::string_view where) {
  std::int64_t line = 0;
  if (where.starts_with("line "))
    std::from_chars(where.data() + 5, where.data() + where.size(), line);
  return line;
}

std::string key_in(std::string_view where) {
  const std::size_t colon = where.starts_with("line ") ? where.find(": ") : std::string_view::npos;
  return std::string(colon == std::string_view::npos ? where : where.substr(colon + 2));
}

void add_refusal(const DeepSpeedLint& lint, const Refusal& refusal, const Entry& section) {
  const auto line = static_cast<int>(line_in(refusal.parts().where));
  lint.findings.add(
      {.rule = "refused-value",
       .severity = Severity::error,
       .message = fmt::format("DeepSpeed raises {}: {}", refusal.exception(), refusal.parts().what),
       .mend = refusal.parts().way_out.empty() ? "give what is expected" : refusal.parts().way_out},
      line > 0 ? line : section.line, key_in(refusal.parts().where));
}

using SectionCheck = void (*)(const ConfigValue&);

/// Removes the value at a long key; false where there is none.
bool erase_at(ConfigValue& config, std::string_view long_key) {
  ConfigValue* section = &config;
  std::size_t dot = 0;
  while ((dot = long_key.find('.')) != std::string_view::npos) {
    section = section->find(long_key.substr(0, dot));
    if (section == nullptr) return false;
    long_key.remove_prefix(dot + 1);
  }
  return section->is_dict() && section->erase(long_key);
}

/// The section by itself, again without each key that is refused, so that one complaint does not
/// hide the next. True where nothing is refused.
bool lint_section(const DeepSpeedLint& lint, const Entry& section, SectionCheck check) {
  constexpr int most = 20;
  ConfigValue alone = ConfigValue::dict({{section.key, section.value}});
  // Removed keys are told by name already.
  for (const RemovedKey& row : removed_deepspeed_keys()) erase_at(alone, row.key);
  for (int complaints = 0; complaints < most; ++complaints) {
    try {
      check(alone);
      return complaints == 0;
    } catch (const Refusal& refusal) {
      add_refusal(lint, refusal, section);
      const std::string key = key_in(refusal.parts().where);
      if (!key.starts_with(section.key + ".") || !erase_at(alone, key)) return false;
    }
  }
  return false;
}

bool lint_sections(const DeepSpeedLint& lint) {
  const std::pair<const char*, SectionCheck> sections[] = {
      {"zero_optimization", [](const ConfigValue& c) { zero_config_of(c, nullptr); }},
      {"fp16", [](const ConfigValue& c) { fp16_config_of(c); }},
      {"bf16", [](const ConfigValue& c) { bf16_config_of(c); }}};
  bool good = true;
  for (const auto& [key, check] : sections)
    if (const Entry* entry = entry_of(lint.config, key))
      good = lint_section(lint, *entry, check) && good;
  return good;
}

/// The rest of the file, with batch sizes that hold: "auto" and the world are other rules' matter.
void lint_rest(const DeepSpeedLint& lint) {
  ConfigValue rest = lint.config;
  for (const char* key :
       {"gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "sequence_parallel_size"})
    rest.erase(key);
  for (const RemovedKey& row : removed_deepspeed_keys()) erase_at(rest, row.key);
  rest.set("train_batch_size", 1);
  try {
    effective_deepspeed_config(rest, 1, [](const std::string&) { return std::nullopt; });
  } catch (const Refusal& refusal) {
    const std::string key = key_in(refusal.parts().where);
    const Entry* entry = entry_of(lint.config, std::string_view(key).substr(0, key.find('.')));
    const Entry whole{.key = "", .line = 0, .value = {}};
    add_refusal(lint, refusal, entry != nullptr ? *entry : whole);
  }
}

/// Long keys whose "auto" the Trainer and Accelerator know how to fill.
struct Filled {
  std::string_view key;
  bool by_trainer;
  bool by_accelerate;
};

constexpr std::array<Filled, 23> filled{{
    {"train_batch_size", true, true},
    {"train_micro_batch_size_per_gpu", true, true},
    {"gradient_accumulation_steps", true, true},
    {"gradient_clipping", true, true},
    {"fp16.enabled", true, true},
    {"bf16.enabled", true, true},
    {"optimizer.params.lr", true, false},
    {"optimizer.params.betas", true, false},
    {"optimizer.params.eps", true, false},
    {"optimizer.params.weight_decay", true, false},
    {"scheduler.params.warmup_min_lr", true, false},
    {"scheduler.params.warmup_max_lr", true, false},
    {"scheduler.params.warmup_num_steps", true, false},
    {"scheduler.params.total_num_steps", true, false},
    {"zero_optimization.stage", true, true},
    {"zero_optimization.reduce_bucket_size", true, true},
    {"zero_optimization.stage3_prefetch_bucket_size", true, true},
    {"zero_optimization.stage3_param_persistence_threshold", true, true},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", true, true},
    {"zero_optimization.offload_optimizer.device", true, true},
    {"zero_optimization.offload_optimizer.nvme_path", true, true},
    {"zero_optimization.offload_param.device", true, true},
    {"zero_optimization.offload_param.nvme_path", true, true},
}};

std::string fate_of(const std::string& path) {
  const bool nested = path.starts_with("zero_optimization.") || path.starts_with("fp16.") ||
                      path.starts_with("bf16.");
  const auto* row =
      std::find_if(filled.begin(), filled.end(), [&](const Filled& f) { return f.key == path; });
  const bool known = row != filled.end();
  const std::string plain = nested ? "plain DeepSpeed drops it and takes the default"
                                   : "plain DeepSpeed takes the text itself and fails on it";
  if (!known) return plain + "; accelerate refuses it here, the Trainer leaves it";
  return plain + (row->by_accelerate ? "; accelerate and the Trainer fill it in"
                                     : "; the Trainer fills it in, accelerate only with its own "
                                       "DummyOptim and DummyScheduler");
}

void lint_autos(const DeepSpeedLint& lint, const ConfigValue& section, const std::string& path,
                int& left) {
  for (const Entry& entry : section.entries()) {
    const std::string key = path.empty() ? entry.key : path + "." + entry.key;
    if (entry.value.is_dict()) lint_autos(lint, entry.value, key, left);
    if (!entry.value.is("auto")) continue;
    if (left-- <= 0) return;
    const bool known =
        std::any_of(filled.begin(), filled.end(), [&](const Filled& f) { return f.key == key; });
    const bool batch = path.empty() && (entry.key.starts_with("train_") ||
                                        entry.key == "gradient_accumulation_steps");
    lint.findings.add(
        {.rule = "auto",
         .severity = lint.run.plain && batch ? Severity::error
                     : known                 ? Severity::note
                                             : Severity::warning,
         .message = "\"auto\": " + fate_of(key),
         .mend = known ? "give a value where DeepSpeed runs without them" : "give a value"},
        entry, path);
  }
}

constexpr std::array<std::string_view, 7> element_keys{"reduce_bucket_size",
                                                       "allgather_bucket_size",
                                                       "stage3_prefetch_bucket_size",
                                                       "stage3_param_persistence_threshold",
                                                       "stage3_max_live_parameters",
                                                       "stage3_max_reuse_distance",
                                                       "sub_group_size"};

/// Powers of two of a MiB and above are how bytes are written, not elements; so is what comes close
/// to the memory of a GPU.
void lint_units(const DeepSpeedLint& lint) {
  constexpr std::int64_t mebi = 1 << 20;
  for (const std::string_view key : element_keys) {
    const Entry* entry = entry_of(lint.zero(), key);
    if (entry == nullptr || !entry->value.is_number() || entry->value.is_boolean()) continue;
    const double elements = entry->value.number();
    const bool bucket = key.ends_with("bucket_size");
    const bool binary = bucket && elements >= mebi && elements < 0x1p62 &&
                        static_cast<std::int64_t>(elements) % mebi == 0;
    const bool huge = bucket && elements >= 4e9;
    if (!binary && !huge) continue;
    lint.findings.add(
        {.rule = "elements-not-bytes",
         .message =
             fmt::format("{} counts elements: {:.0f} of them are {:.0f} MiB in 16 bits and "
                         "{:.0f} MiB in 32; the number looks like {:.0f} MiB of bytes",
                         key, elements, elements * 2 / mebi, elements * 4 / mebi, elements / mebi),
         .mend = fmt::format("write {:.0f} if {:.0f} MiB of 16-bit elements are meant",
                             elements / 2, elements / mebi)},
        *entry, "zero_optimization");
  }
}

void lint_defaults(const DeepSpeedLint& lint) {
  if (!lint.config.has("gradient_clipping"))
    lint.findings.add(
        {.rule = "clipping-default",
         .severity = Severity::note,
         .message = "without gradient_clipping DeepSpeed 0.19 clips gradients at a norm "
                    "of 1.0",
         .mend = "write \"gradient_clipping\": 1.0, or 0 for none"},
        0, "gradient_clipping");
  const Entry* stage = entry_of(lint.zero(), "stage");
  if (stage != nullptr && stage->value.is_string() && lint.stage() >= 0 && !stage->value.is("auto"))
    lint.findings.add(
        {.rule = "stage-as-text",
         .message = "DeepSpeed takes the text as a number, accelerate and the Trainer "
                    "do not: they see neither stage 2 nor stage 3",
         .mend = fmt::format("write {} without quotes", stage->value.string())},
        *stage, "zero_optimization");
}

}  // namespace

void lint_values(const DeepSpeedLint& lint) {
  if (lint_sections(lint)) lint_rest(lint);
  int left = most_unknown_keys;
  lint_autos(lint, lint.config, "", left);
  lint_units(lint);
  lint_defaults(lint);
}

}  // namespace shardscope
