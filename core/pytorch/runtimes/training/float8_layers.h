// Linear layers of a model in torchao's float8: which of them, and their weights' casts under
// FSDP2.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/float8.h"
#include "core/pytorch/runtimes/fsdp2/settings.h"

namespace shardscope::eager {

/// Those that accelerate converts: all but the first and the last, where both sizes divide by 16.
/// Source: accelerate 1.15.0 utils/ao.py (convert_model_to_fp8_ao), accelerator.py (_prepare_ao).
std::vector<Module*> float8_layers_of_accelerate(Module& root);

/// Those that torchtitan converts: all but `output`.
std::vector<Module*> float8_layers_of_torchtitan(Module& root);

/// Error where a GPU has no products of 8 bits (torch._scaled_mm). Example: 89 is 8.9.
void check_float8_device(int compute_capability);

class Float8Layers {
 public:
  /// Converts `layers`. `shards` are the ranks that FSDP2 shards over, and null without it.
  /// Error where there are none: float8 would change nothing.
  Float8Layers(const std::vector<Module*>& layers, const parallel::Float8Settings& settings,
               const ProcessGroup* shards);
  Float8Layers(const Float8Layers&) = delete;
  Float8Layers& operator=(const Float8Layers&) = delete;

  /// Tells how tensor parallelism splits one of the layers; nothing of others.
  void split(const Module& layer, const parallel::Float8Split& split);

  /// What fully_shard gathers in the place of a converted layer's weight; empty of others.
  fsdp2::GatherExtension extension_of(const Tensor& parameter) const;
  /// After each step of the optimizer, where shards are cast before they are gathered.
  void precompute_scales(Session& s);

 private:
  struct Layer {
    Module* module = nullptr;
    parallel::Float8Split split;
    /// Of a weight that is cast before it is gathered.
    std::unique_ptr<parallel::Float8Shard> shard;
  };

  parallel::Float8Settings settings_;
  parallel::Pending pending_;
  parallel::MeshAxisContext axis_;
  std::vector<std::unique_ptr<Layer>> layers_;  ///< their modules look at them
};

}  // namespace shardscope::eager
