// Keys of a DeepSpeed configuration that are unknown, gone or old.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/nearest_word.h"
#include "core/config/deepspeed/known_keys.h"
#include "core/config/deepspeed/lint_rules.h"
#include "core/config/deepspeed/removed_keys.h"

namespace shardscope {
namespace {

using Entry = ConfigValue::Entry;

constexpr std::string_view zero_prefix = "zero_optimization.";

void lint_removed(const DeepSpeedLint& lint) {
  for (const RemovedKey& row : removed_deepspeed_keys()) {
    const bool in_zero = row.key.starts_with(zero_prefix);
    const std::string_view key = in_zero ? row.key.substr(zero_prefix.size()) : row.key;
    if (const Entry* entry = entry_of(in_zero ? lint.zero() : lint.config, key))
      lint.findings.add(
          {.rule = "removed-key",
           .severity = Severity::error,
           .message = fmt::format("DeepSpeed 0.19 has removed {} and refuses the key", row.feature),
           .mend = std::string(row.way_out)},
          *entry, in_zero ? "zero_optimization" : "");
  }
}

bool is_removed(std::string_view key) {
  const auto rows = removed_deepspeed_keys();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const RemovedKey& row) { return row.key == key; });
}

void lint_unknown(const DeepSpeedLint& lint) {
  const std::vector<std::string_view>& known = known_deepspeed_keys();
  int left = most_unknown_keys;
  for (const Entry& entry : lint.config.entries()) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end() || is_removed(entry.key))
      continue;
    if (left-- == 0) break;
    const std::optional<std::string_view> near = nearest_word(entry.key, known);
    lint.findings.add({.rule = "unknown-key",
                       .message = "DeepSpeed does not know the key and passes over it silently",
                       .mend = near ? fmt::format("did you mean \"{}\"?", *near) : "remove it"},
                      entry, "");
  }
}

void lint_checkpointing(const DeepSpeedLint& lint) {
  const std::vector<std::string_view> known{
      "partition_activations", "contiguous_memory_optimization",  "cpu_checkpointing",
      "number_checkpoints",    "synchronize_checkpoint_boundary", "profile"};
  const Entry* section = entry_of(lint.config, "activation_checkpointing");
  if (section == nullptr || !section->value.is_dict()) return;
  for (const Entry& entry : section->value.entries()) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::optional<std::string_view> near = nearest_word(entry.key, known);
    lint.findings.add({.rule = "unknown-key",
                       .message = "DeepSpeed passes over this key silently",
                       .mend = near ? fmt::format("did you mean \"{}\"?", *near) : "remove it"},
                      entry, section->key);
  }
  lint.findings.add(
      {.rule = "needs-call",
       .severity = Severity::note,
       .message = "this section only sets up deepspeed.checkpointing, which the model's code must "
                  "call; it switches nothing on by itself",
       .mend = "call model.gradient_checkpointing_enable() or deepspeed.checkpointing"},
      *section, "");
}

struct OldKey {
  std::string_view section;  ///< "" is the top level
  std::string_view key;
  std::string_view message;
  std::string_view mend;
};

constexpr std::array<OldKey, 7> old_keys{{
    {"zero_optimization", "cpu_offload", "deprecated", "use offload_optimizer: {device: cpu}"},
    {"zero_optimization", "cpu_offload_param", "deprecated", "use offload_param: {device: cpu}"},
    {"zero_optimization", "cpu_offload_use_pin_memory", "deprecated, and no longer looked at",
     "set pin_memory in offload_optimizer and offload_param"},
    {"zero_optimization", "stage3_gather_fp16_weights_on_model_save", "deprecated",
     "use stage3_gather_16bit_weights_on_model_save"},
    {"zero_optimization", "elastic_checkpoint", "without effect in stage 3", "remove it"},
    {"", "bfloat16", "the old name, passed over where bf16 stands too", "rename it to bf16"},
    {"optimizer.params", "max_grad_norm", "not used: DeepSpeed clips at gradient_clipping alone",
     "set gradient_clipping"},
}};

const ConfigValue* section_at(const ConfigValue& config, std::string_view path) {
  const ConfigValue* section = &config;
  while (!path.empty() && section != nullptr) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    section = section->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return section;
}

void lint_old(const DeepSpeedLint& lint) {
  for (const OldKey& row : old_keys) {
    const ConfigValue* section = section_at(lint.config, row.section);
    const Entry* entry = section != nullptr ? entry_of(*section, row.key) : nullptr;
    if (entry == nullptr) continue;
    lint.findings.add({.rule = "deprecated-key",
                       .message = std::string(row.message),
                       .mend = std::string(row.mend)},
                      *entry, std::string(row.section));
  }
  const Entry* zero = entry_of(lint.config, "zero_optimization");
  if (zero == nullptr || !zero->value.is_boolean()) return;
  lint.findings.add({.rule = "deprecated-key",
                     .message = fmt::format("true or false is an old form and means stage {}; "
                                            "accelerate and the Trainer fail on it",
                                            zero->value.boolean() ? 1 : 0),
                     .mend = "write a section with a stage"},
                    *zero, "");
}

}  // namespace

void lint_keys(const DeepSpeedLint& lint) {
  lint_removed(lint);
  lint_unknown(lint);
  lint_checkpointing(lint);
  lint_old(lint);
}

}  // namespace shardscope
