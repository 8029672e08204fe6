#include "tests/recordings/training_variant.h"

#include <charconv>
#include <set>
#include <string_view>

namespace shardscope::recordings {
namespace {

const std::map<std::string, ShardingStrategy>& strategy_of_kind() {
  static const std::map<std::string, ShardingStrategy> strategies{
      {"single", ShardingStrategy::no_shard},
      {"ddp", ShardingStrategy::no_shard},
      {"fsdp1_no_shard", ShardingStrategy::no_shard},
      {"fsdp1_full", ShardingStrategy::full_shard},
      {"fsdp1_grad_op", ShardingStrategy::shard_grad_op},
      {"fsdp2", ShardingStrategy::full_shard},
      {"gpipe", ShardingStrategy::no_shard},
      {"1f1b", ShardingStrategy::no_shard},
      {"interleaved", ShardingStrategy::no_shard}};
  return strategies;
}

std::optional<PipelineScheduleKind> pipeline_of(const std::string& kind) {
  if (kind == "gpipe") return PipelineScheduleKind::gpipe;
  if (kind == "1f1b") return PipelineScheduleKind::one_f_one_b;
  if (kind == "interleaved") return PipelineScheduleKind::interleaved_1f1b;
  return std::nullopt;
}

/// FSDP with bfloat16 parameters and float32 reductions, or autocast of a float32 model: both keep
/// float32 masters and differ in what is rounded on the way.
Precision precision_of(const TrainingVariant& variant) {
  const bool mixed = variant.number("bf16", 0) != 0 || variant.options.contains("autocast");
  return mixed ? Precision::bf16_mixed : Precision::fp32;
}

}  // namespace

TrainingVariant parse_variant(const std::string& name) {
  TrainingVariant variant;
  const std::size_t colon = std::min(name.find(':'), name.size());
  variant.kind = name.substr(0, colon);
  std::string_view rest = std::string_view(name).substr(std::min(colon + 1, name.size()));
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(option.size() + 1, rest.size()));
    const std::size_t equals = std::min(option.find('='), option.size());
    variant.options[std::string(option.substr(0, equals))] =
        option.substr(std::min(equals + 1, option.size()));
  }
  return variant;
}

int TrainingVariant::number(const std::string& option, int fallback) const {
  const auto found = options.find(option);
  if (found == options.end()) return fallback;
  int value = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [stopped, error] = std::from_chars(found->second.data(), end, value);
  return error == std::errc{} && stopped == end ? value : 0;
}

OwnRun own_run_of(const TrainingVariant& variant) {
  const ShardingStrategy sharding = strategy_of_kind().at(variant.kind);
  const auto pipeline = pipeline_of(variant.kind);
  // Whole gradients are reduced once a step, whatever DDP does.
  const bool may_reduce_often = sharding != ShardingStrategy::no_shard;
  return {.sharding = sharding,
          .world = variant.number("world", 1),
          .split = variant.number(pipeline ? "micro" : "split", 1),
          .checkpointing = variant.number("ckpt", 0) != 0,
          .reduce_every_micro_batch = may_reduce_often && variant.number("nosync", 0) == 0,
          .precision = precision_of(variant),
          .pipeline = pipeline,
          // Of the recorder's interleaved runs.
          .stages_per_rank = pipeline == PipelineScheduleKind::interleaved_1f1b ? 2 : 1};
}

std::string why_not(const TrainingVariant& variant) {
  if (!strategy_of_kind().contains(variant.kind)) return "there is no runtime " + variant.kind;
  static const std::set<std::string> known{"world", "attn",  "split", "ckpt",     "nosync",
                                           "optim", "dtype", "bf16",  "autocast", "micro"};
  for (const auto& [option, value] : variant.options) {
    if (!known.contains(option)) return option + "=" + value + " is not supported";
    if (option == "dtype" && value != "float64" && value != "float32")
      return "dtype=" + value + " is not supported";
    if (option == "autocast" && value != "bf16")
      return "autocast to " + value + " is not supported";
  }
  if (variant.number("world", 1) < 1 || variant.number("split", 1) < 1)
    return "a count is not positive";
  return {};
}

bool is_asked_of(const TrainingVariant& variant, bool other_device) {
  return !other_device || (variant.number("world", 1) == 1 && why_not(variant).empty());
}

}  // namespace shardscope::recordings
