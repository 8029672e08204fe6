// Qwen3's mixture of experts as torchtitan writes it, as torch.nn modules. Source: torchtitan
// 0.3.0, models/qwen3/model.py, models/common/ (decoder.py, attention.py, moe.py, rope.py).
#pragma once

#include <cstdint>
#include <memory>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/parallel/token_dispatcher.h"

namespace shardscope::eager::parallel {

struct MixtureShape {
  std::int64_t dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t hidden = 0;  ///< of an expert
};

struct MixtureOptions {
  MixtureShape shape;
  std::int64_t length = 0;  ///< of the rotary tables, in tokens
  Dtype dtype = Dtype::float32;
  const ProcessGroup* ranks = nullptr;  ///< over which experts are spread; null: all are here
};

/// Modules on the meta device. The root takes {ids, positions} and returns what lm_head, its last
/// child, is to be called with, part by part.
std::shared_ptr<Module> make_mixture(Session& s, const MixtureOptions& options);

/// The modules of a block's mixture and its experts; `block` may be in a checkpoint.
Module& moe_of(Module& block);
Module& grouped_experts_of(Module& block);

}  // namespace shardscope::eager::parallel
