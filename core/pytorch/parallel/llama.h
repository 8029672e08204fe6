// The Llama of torchtitan, as torch.nn modules: names, order of operators, and what each keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/functional.h"

namespace shardscope::eager::parallel {

struct LlamaShape {
  std::int64_t dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t hidden = 0;  ///< of the feed-forward
  std::int64_t vocab = 0;
  std::int64_t head_dim() const { return dim / heads; }
};

/// Attention of query, key and value (B, H, T, D), all of the same heads, causal.
using AttentionFunction = std::function<Tensor(Session& s, Tensor query, Tensor key, Tensor value)>;
/// A module in the place of a block's feed_forward, of full name `name`.
using FeedForwardFactory = std::function<std::shared_ptr<Module>(const std::string& name)>;

/// Which of the layers a stage of a pipeline holds; by default all.
struct LlamaPart {
  bool first = true;  ///< with tok_embeddings
  bool last = true;   ///< with norm and output
  std::vector<std::int64_t> layers;
};

/// The layers of a stage out of `layers` in all. `stage_layers`: how many each stage has; empty:
/// all equally many.
std::vector<std::int64_t> layers_of_stage(std::vector<std::int64_t> stage_layers,
                                          std::int64_t layers, int stages, int stage);

struct LlamaOptions {
  LlamaShape shape;
  LlamaPart part;
  std::int64_t length = 0;  ///< of the rotary tables, in tokens
  Dtype dtype = Dtype::float32;
  AttentionFunction attention;      ///< empty: scaled_dot_product_attention
  FeedForwardFactory feed_forward;  ///< empty: SwiGLU
  Pending* pending = nullptr;       ///< results that blocks may be given; not owned
};

/// Modules on the meta device.
std::shared_ptr<Module> make_llama(Session& s, const LlamaOptions& options);

/// A linear layer without a bias, "weight" (out, in), on the meta device.
std::shared_ptr<Module> make_linear(Session& s, std::string name, std::int64_t out, std::int64_t in,
                                    Dtype dtype);

}  // namespace shardscope::eager::parallel
