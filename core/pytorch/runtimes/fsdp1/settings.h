// What the constructor of FullyShardedDataParallel chooses beside units and shards.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/dtype.h"

namespace shardscope::eager::fsdp1 {

enum class BackwardPrefetch : std::uint8_t { none, pre, post };

/// MixedPrecision; all absent: none.
struct Precision {
  std::optional<Dtype> parameters = {};  ///< param_dtype
  std::optional<Dtype> reduction = {};   ///< reduce_dtype
  std::optional<Dtype> buffers = {};     ///< buffer_dtype
  bool keep_low_precision_gradients = false;
  bool cast_forward_inputs = false;
  bool cast_root_forward_inputs = true;
};

/// The arguments of the root's call, which its policy gives to every unit.
struct Options {
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = false;
  bool limit_all_gathers = true;
  bool use_original_parameters = false;  ///< use_orig_params
  Precision precision = {};
  bool offload_parameters = false;  ///< CPUOffload.offload_params
  bool sync_module_states = false;
  bool full_precision_in_eval = false;  ///< FSDP_USE_FULL_PREC_IN_EVAL=1
};

/// HandleTrainingState.
enum class HandleState : std::uint8_t { idle, forward, backward_pre, backward_post, summon };

}  // namespace shardscope::eager::fsdp1
