// What deepspeed_config seems to say, and what DeepSpeed is given.
#include <fmt/format.h>

#include <array>

#include "core/config/accelerate/lint_rules.h"

namespace shardscope::accelerate {
namespace {

using Entry = ConfigValue::Entry;

constexpr std::string_view section = "deepspeed_config";

void lint_paths(LintContext& context) {
  for (const char* key : {"offload_optimizer_nvme_path", "offload_param_nvme_path"}) {
    const Entry* entry = context.member(section, key);
    if (entry == nullptr || entry->value.is_null() || entry->value.is("none")) continue;
    context.add({.rule = "ignored-key",
                 .message = "the launcher does not hand the path on: DeepSpeed is given \"none\"",
                 .mend = "put it into a file of DeepSpeed's own, or set ACCELERATE_DEEPSPEED_"
                         "OFFLOAD_..._NVME_PATH in the shell"},
                *entry, section);
  }
}

/// Beside a DeepSpeed file accelerate refuses settings that the file should make.
void lint_file(LintContext& context) {
  constexpr std::array<std::string_view, 8> refused{
      "gradient_accumulation_steps", "gradient_clipping",     "zero_stage",
      "offload_optimizer_device",    "offload_param_device",  "offload_param_nvme_path",
      "offload_optimizer_nvme_path", "zero3_save_16bit_model"};
  const Entry* file = context.member(section, "deepspeed_config_file");
  if (file == nullptr || file->value.is_null()) return;
  const auto add = [&](const Entry& entry, std::string_view in) {
    context.add({.rule = "beside-deepspeed-file",
                 .severity = Severity::error,
                 .message = "beside deepspeed_config_file this key is refused",
                 .mend = "set it in the DeepSpeed file and remove it here"},
                entry, in);
  };
  for (const std::string_view key : refused)
    if (const Entry* entry = context.member(section, key)) add(*entry, section);
  if (const Entry* entry = context.top("mixed_precision");
      entry != nullptr && !entry->value.is_null())
    add(*entry, {});
}

void lint_init_flag(LintContext& context) {
  const Entry* flag = context.member(section, "zero3_init_flag");
  const Entry* stage = context.member(section, "zero_stage");
  const bool stage_3 = stage != nullptr && stage->value.str() == "3";
  const bool has_file = context.member(section, "deepspeed_config_file") != nullptr;
  if (flag == nullptr || !flag->value.truthy() || stage_3 || has_file) return;
  context.add({.rule = "init-without-stage-3",
               .message = "zero3_init_flag counts only with stage 3 and is switched off",
               .mend = "write zero_stage: 3, or remove it"},
              *flag, section);
}

void lint_stage(LintContext& context) {
  if (context.member(section, "zero_stage") != nullptr ||
      context.member(section, "deepspeed_config_file") != nullptr)
    return;
  context.add({.rule = "stage-default",
               .severity = Severity::note,
               .message = "without zero_stage accelerate takes stage 2",
               .mend = "write zero_stage"},
              0, "deepspeed_config.zero_stage");
}

}  // namespace

void lint_deepspeed(LintContext& context) {
  lint_paths(context);
  lint_file(context);
  lint_init_flag(context);
  lint_stage(context);
}

}  // namespace shardscope::accelerate
