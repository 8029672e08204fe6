// Linear layers of a model in torchao's float8, as accelerate converts them: all but the first and
// the last, where both sizes divide by 16. Source: accelerate 1.15.0 utils/ao.py
// (convert_model_to_fp8_ao), accelerator.py (_prepare_ao).
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/float8.h"
#include "core/pytorch/runtimes/fsdp2/settings.h"

namespace shardscope::eager {

class Float8Layers {
 public:
  /// Converts them. `shards` are the ranks that FSDP2 shards over, and null without it.
  Float8Layers(Module& root, const parallel::Float8Settings& settings, const ProcessGroup* shards);

  std::size_t count() const { return count_; }
  /// What fully_shard gathers in the place of a converted layer's weight; empty of others.
  fsdp2::GatherExtension extension_of(const Tensor& parameter) const;
  /// After each step of the optimizer, where shards are cast before they are gathered.
  void precompute_scales(Session& s);

 private:
  struct CastWeight {
    Module* module = nullptr;
    const TensorImpl* made = nullptr;  ///< the parameter before it was sharded
    std::unique_ptr<parallel::Float8Shard> shard;
  };

  parallel::Float8Settings settings_;
  parallel::Pending pending_;
  parallel::MeshAxisContext axis_;
  std::vector<CastWeight> weights_;  ///< those that are cast before they are gathered
  std::size_t count_ = 0;
};

}  // namespace shardscope::eager
