// Keys of zero_optimization that the chosen stage does not look at, and offloading.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/config/deepspeed/lint_rules.h"

namespace shardscope {
namespace {

using Entry = ConfigValue::Entry;

constexpr std::string_view section = "zero_optimization";

/// Keys that only stage 3 looks at, beside all that begin with "stage3_".
constexpr std::array<std::string_view, 13> only_stage_3{"sub_group_size",
                                                        "zero_hpz_partition_size",
                                                        "zero_quantized_weights",
                                                        "zero_quantized_nontrainable_weights",
                                                        "zero_quantized_gradients",
                                                        "memory_efficient_linear",
                                                        "pipeline_loading_checkpoint",
                                                        "override_module_apply",
                                                        "leaf_module",
                                                        "prefetch_bucket_size",
                                                        "param_persistence_threshold",
                                                        "max_live_parameters",
                                                        "max_reuse_distance"};
constexpr std::array<std::string_view, 6> only_stages_1_and_2{"round_robin_gradients",
                                                              "ignore_unused_parameters",
                                                              "use_multi_rank_bucket_allreduce",
                                                              "parameter_alignment",
                                                              "legacy_stage1",
                                                              "allgather_partitions"};

template <std::size_t n>
bool is_among(std::string_view key, const std::array<std::string_view, n>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void lint_unused(const DeepSpeedLint& lint, std::int64_t stage) {
  for (const Entry& entry : lint.zero().entries()) {
    const bool wants_3 = entry.key.starts_with("stage3_") || is_among(entry.key, only_stage_3);
    const bool wants_1_or_2 = is_among(entry.key, only_stages_1_and_2);
    const bool used = (wants_3 && stage == 3) || (wants_1_or_2 && (stage == 1 || stage == 2)) ||
                      (!wants_3 && !wants_1_or_2);
    if (used) continue;
    lint.findings.add(
        {.rule = "other-stage",
         .message = fmt::format("stage {} does not look at this key: it counts only in "
                                "stage {}",
                                stage, wants_3 ? "3" : "1 or 2"),
         .mend = "remove it, or change the stage"},
        entry, std::string(section));
  }
}

void lint_offload_param(const DeepSpeedLint& lint, std::int64_t stage) {
  const Entry* entry = entry_of(lint.zero(), "offload_param");
  if (entry == nullptr || !entry->value.is_dict() || stage == 3) return;
  const ConfigValue device = entry->value.get("device");
  if (device.is_null() || device.is("none") || device.is("auto")) return;
  lint.findings.add(
      {.rule = "offload-param-stage",
       .severity = Severity::error,
       .message = fmt::format("parameters are offloaded only in stage 3; the "
                              "configuration passes, and deepspeed.initialize stops at "
                              "stage {}",
                              stage),
       .mend = "remove offload_param, or set stage 3"},
      *entry, std::string(section));
}

void lint_nvme(const DeepSpeedLint& lint) {
  for (const char* key : {"offload_param", "offload_optimizer"}) {
    const Entry* entry = entry_of(lint.zero(), key);
    if (entry == nullptr || !entry->value.is_dict()) continue;
    const std::string path = std::string(section) + "." + key;
    const Entry* folder = entry_of(entry->value, "nvme_path");
    const bool given = folder != nullptr && !folder->value.is_null() && !folder->value.is("none");
    if (entry->value.get("device").is("nvme") && !given)
      lint.findings.add({.rule = "nvme-without-path",
                         .severity = Severity::error,
                         .message = "device nvme has no nvme_path to swap to",
                         .mend = "add \"nvme_path\": \"/local_nvme\""},
                        *entry, std::string(section));
    const ConfigValue device = entry->value.get("device");
    if (given && !device.is("nvme") && !device.is("auto"))
      lint.findings.add({.rule = "ignored-key",
                         .severity = Severity::note,
                         .message = "nvme_path counts only with device nvme",
                         .mend = "remove it, or set \"device\": \"nvme\""},
                        *folder, path);
  }
}

void lint_offload_optimizer(const DeepSpeedLint& lint, std::int64_t stage) {
  const Entry* entry = entry_of(lint.zero(), "offload_optimizer");
  if (entry == nullptr || !entry->value.is_dict() || stage != 0) return;
  const ConfigValue device = entry->value.get("device");
  if (device.is("cpu") || device.is("nvme"))
    lint.findings.add({.rule = "other-stage",
                       .message = "stage 0 offloads nothing",
                       .mend = "set stage 1, 2 or 3"},
                      *entry, std::string(section));
}

}  // namespace

void lint_stages(const DeepSpeedLint& lint) {
  const std::int64_t stage = lint.stage();
  if (stage < 0 || lint.zero().get("stage").is("auto")) return;
  lint_unused(lint, stage);
  lint_offload_param(lint, stage);
  lint_offload_optimizer(lint, stage);
  lint_nvme(lint);
}

}  // namespace shardscope
