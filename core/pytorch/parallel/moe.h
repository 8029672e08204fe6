// A mixture of experts of which each expert takes the same number of tokens, its experts spread
// over ranks: two exchanges around them.
#pragma once

#include "core/pytorch/parallel/llama.h"
#include "core/pytorch/runtimes/tensor/distributed_tensor.h"

namespace shardscope::eager::parallel {

struct ExpertSettings {
  std::int64_t experts = 0;  ///< in all; 0: a dense model
  std::int64_t top_k = 2;    ///< choices of a token, on average
  int ranks = 1;             ///< over which experts are spread
  int shards = 1;            ///< ranks that FSDP2 shards each rank's experts over
};

/// A block's feed_forward: "router", and "experts" with w1, w2, w3 of (experts here, in, out).
/// `axis` without a group: all experts are here.
std::shared_ptr<Module> make_moe(Session& s, const std::string& name, const LlamaOptions& options,
                                 const ExpertSettings& settings, const MeshAxisContext& axis);

}  // namespace shardscope::eager::parallel
