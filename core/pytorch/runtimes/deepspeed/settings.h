// A DeepSpeed configuration as a schedule needs it: typed, every default in it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/base/dtype.h"
#include "core/schedule/offload_device.h"

namespace shardscope {

/// offload_optimizer or offload_param.
struct DeepSpeedOffload {
  OffloadDevice device = OffloadDevice::none;
  std::string nvme_path;  ///< empty: none
  bool pin_memory = true;
  double ratio = 1;  ///< share of the optimizer states that are offloaded; stage 3, optimizer only
  bool operator==(const DeepSpeedOffload&) const = default;
};

/// overlap_comm where nobody gives it. Source: zero/config.py, overlap_comm_valid.
constexpr bool overlaps_by_default(std::int64_t stage) { return stage == 3; }

/// Sizes are elements, as DeepSpeed counts them.
struct DeepSpeedSettings {
  int stage = 0;
  std::int64_t reduce_bucket_elements = 500'000'000;
  std::int64_t allgather_bucket_elements = 500'000'000;
  bool overlap_comm = false;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  bool round_robin_gradients = false;
  bool multi_rank_all_reduce = true;  ///< use_multi_rank_bucket_allreduce
  bool parameter_alignment = false;

  // Stage 3.
  std::int64_t prefetch_bucket_elements = 50'000'000;
  std::int64_t param_persistence_elements = 100'000;
  std::int64_t model_persistence_elements = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_live_elements = 1'000'000'000;
  std::int64_t max_reuse_elements = 1'000'000'000;
  std::int64_t sub_group_elements = 1'000'000'000;
  bool gathers_on_save = false;  ///< stage3_gather_16bit_weights_on_model_save

  // ZeRO++.
  std::int64_t hpz_partition_size = 1;  ///< ranks that share a second copy of the parameters
  bool quantized_weights = false;
  bool quantized_nontrainable_weights = false;
  bool quantized_gradients = false;

  DeepSpeedOffload offload_optimizer;
  bool has_own_optimizer = false;  ///< the key "optimizer": made of parameters in one group
  DeepSpeedOffload offload_param;

  Dtype precision = Dtype::float32;  ///< of parameters and activations in compute
  /// The config enables neither bf16 nor fp16: `precision` is that of the weights as loaded.
  bool precision_of_weights = false;
  bool keeps_dtypes = false;  ///< parameters that are not in it stay as they are
  /// ZeRO-1 and 2: reduce buckets are made before the loss runs backward, not at the first
  /// gradient. DeepSpeed before pull request 7665 (November 2025), stage_1_and_2.py, backward.
  bool buckets_before_backward = false;
  bool masters_in_precision = false;         ///< master weights and gradients stay in it
  std::optional<Dtype> communication_dtype;  ///< of gradients on the wire; absent: precision
  std::optional<Dtype> accumulation_dtype;   ///< data_types.grad_accum_dtype
  bool immediate_gradients = false;          ///< bf16.immediate_grad_update

  std::int64_t train_batch_size = 0;
  std::int64_t micro_batch_size = 0;  ///< per rank
  std::int64_t accumulation_steps = 1;
  double gradient_clipping = 1;  ///< norm; 0: none

  bool operator==(const DeepSpeedSettings&) const = default;
};

}  // namespace shardscope
