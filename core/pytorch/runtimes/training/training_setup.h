// A training under PyTorch with everything decided: what runtime, model and loop are told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/plans/tensor_plan.h"
#include "core/pytorch/runtimes/common/float8.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "core/pytorch/runtimes/deepspeed/settings.h"
#include "core/pytorch/runtimes/fsdp1/settings.h"
#include "core/pytorch/runtimes/fsdp2/settings.h"
#include "core/pytorch/runtimes/training/fine_tuning.h"
#include "core/pytorch/runtimes/training/int8_training.h"
#include "core/pytorch/runtimes/training/training_loop.h"
#include "core/schedule/compile_scope.h"

namespace shardscope::eager {

/// The model alone, on one device.
struct PlainSetup {};

struct Fsdp1Setup {
  Fsdp1Settings units;
  fsdp1::Options options;
};

struct Fsdp2Setup {
  struct Call {
    /// As named_modules() lists them, checkpointing's wrappers among them; "" is the root.
    std::vector<std::string> modules;
    fsdp2::ReshardAfterForward reshard_after_forward;
  };
  std::vector<int> mesh;  ///< {shards} or {replicas, shards}
  std::vector<Call> calls;
  bool reshards = true;  ///< reshard_after_forward as it was asked for, of a second model
  fsdp2::MixedPrecisionPolicy mixed_precision;
  std::optional<fsdp2::CpuOffloadPolicy> offload;
  std::vector<std::string> ignored_parameters;  ///< by first name
};

struct DeepSpeedSetup {
  DeepSpeedSettings settings;
};

/// tp_plan of transformers: so many neighbouring ranks divide each layer, and the model is loaded
/// divided. Beside PlainSetup or Fsdp2Setup, whose mesh is that of the other ranks.
struct TensorSetup {
  int ranks = 1;
  std::vector<TensorRule> plan;
};

using RuntimeSetup = std::variant<PlainSetup, ddp::Options, Fsdp1Setup, Fsdp2Setup, DeepSpeedSetup>;

/// Modules that get wrappers of activation checkpointing, by name in the model.
struct CheckpointSetup {
  std::vector<std::string> modules;
  CheckpointOptions options;
};

struct TrainingSetup {
  int world = 1;
  int rank = 0;
  /// Present: the model is loaded and adapted first, and what is played is its base. The runtime's
  /// modules are named as they are then.
  std::optional<FineTuningSetup> fine_tuning = {};
  RuntimeSetup runtime;
  std::optional<TensorSetup> tensor = {};
  /// Of parameters that train; absent: as the model has them.
  std::optional<Dtype> trainable_dtype = {};
  /// Where the model is made: there already, moved by the runtime, or empty until it is sharded.
  Device made_on = Device::cuda;
  /// Of a model made on meta: weights come from rank 0, one whole parameter after the other.
  bool loads_from_rank_0 = false;
  /// Shards become this once they are filled. FSDP2: all, by model.to() of accelerate before 1.13.
  /// FSDP1: flat parameters that train, by accelerate's prepare_model under mixed precision.
  std::optional<Dtype> dtype_of_shards = {};
  /// Of FSDP: SHARDED_STATE_DICT, else FULL_STATE_DICT.
  bool saves_shards = false;
  CheckpointSetup checkpointing;
  /// torchao's float8 in linear layers (float8_layers.h): plain, under DDP and under FSDP2.
  parallel::Float8Settings float8 = {};
  Int8Training int8 = Int8Training::none;  ///< torchao's, of one device
  /// Around the model's own forward, whose outputs then become float32: what accelerate's
  /// prepare_model does under mixed precision.
  std::optional<Dtype> forward_autocast = {};
  SessionSettings session;
  ModelSettings model;
  TrainingSettings loop;
  /// torch.compile with a backend that makes kernels of its own. What is recorded is eager.
  CompileScope compiled = CompileScope::none;
  std::vector<std::string> assumed;  ///< what nobody said, and what is left out
};

/// Ranks that have different sequences.
inline int batches_of(const TrainingSetup& setup) {
  return setup.world / (setup.tensor ? setup.tensor->ranks : 1);
}

/// What the parameters that train are kept in between steps: FSDP's shards.
inline Dtype stored_dtype(const shardscope::Model& model, const TrainingSetup& setup) {
  return setup.dtype_of_shards.value_or(setup.trainable_dtype.value_or(model.dtype));
}

}  // namespace shardscope::eager
