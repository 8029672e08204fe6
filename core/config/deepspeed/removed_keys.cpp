#include "core/config/deepspeed/removed_keys.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

constexpr std::string_view zero_prefix = "zero_optimization.";

constexpr std::array<RemovedKey, 14> removed{{
    {"nebula", "Nebula checkpointing", "remove it; checkpoints are saved by torch.save"},
    {"compression_training", "the compression library", "remove it and quantize after training"},
    {"amp", "NVIDIA Apex AMP", "use fp16, bf16 or torch_autocast"},
    {"quantize_training", "Mixture-of-Quantization", "remove it"},
    {"sparse_gradients", "sparse compression of embedding gradients",
     "remove it, or construct the embedding with sparse=True"},
    {"eigenvalue", "Mixture-of-Quantization by eigenvalues", "remove it"},
    {"sparse_attention", "DeepSpeed Sparse Attention", "remove it"},
    {"elasticity", "elastic training",
     "set train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps"},
    {"graph_harvesting", "graph harvesting", "remove it"},
    {"curriculum_learning", "legacy curriculum learning",
     "use data_efficiency.data_sampling.curriculum_learning"},
    {"progressive_layer_drop", "progressive layer dropping", "remove it"},
    {"zero_optimization.mics_shard_size", "MiCS",
     "use zero_hpz_partition_size for shards within a node"},
    {"zero_optimization.mics_hierarchical_params_gather", "MiCS",
     "use zero_hpz_partition_size for shards within a node"},
    {"zero_optimization.zeropp_loco_param", "LoCo-Zero++",
     "remove it; zero_quantized_gradients then works without error feedback"},
}};

const ConfigValue* found(const ConfigValue& config, std::string_view key) {
  if (!key.starts_with(zero_prefix)) return config.find(key);
  const ConfigValue* zero = config.find("zero_optimization");
  return zero != nullptr && zero->is_dict() ? zero->find(key.substr(zero_prefix.size())) : nullptr;
}

}  // namespace

std::span<const RemovedKey> removed_deepspeed_keys() { return removed; }

void refuse_removed_keys(const ConfigValue& config) {
  for (const RemovedKey& row : removed)
    if (const ConfigValue* value = found(config, row.key))
      throw Refusal(
          "DeepSpeedConfigError",
          {.where = value->line() > 0 ? fmt::format("line {}: {}", value->line(), row.key)
                                      : std::string(row.key),
           .what = fmt::format("DeepSpeed has removed {} and refuses this key", row.feature),
           .way_out = std::string(row.way_out)});
}

}  // namespace shardscope
