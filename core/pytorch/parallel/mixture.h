// Llama 3, Qwen3, DeepSeek-V3 and GPT-OSS as torchtitan 0.3 writes them, dense or as mixtures of
// experts, as torch.nn modules. Source: torchtitan 0.3.0, models/qwen3/model.py,
// models/deepseek_v3/model.py, models/common/ (decoder.py, attention.py, feed_forward.py, moe.py,
// rope.py).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/parallel/llama.h"
#include "core/pytorch/parallel/token_dispatcher.h"
#include "core/pytorch/runtimes/common/float8.h"

namespace shardscope::eager::parallel {

/// DeepSeek-V3's attention: queries, keys and values out of latents.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< 0: queries out of the block's input
  std::int64_t rank = 0;
  std::int64_t plain = 0, rotary = 0, value = 0;  ///< columns of a head
  std::int64_t key() const { return plain + rotary; }
};

/// How a token's experts are found and weighted.
struct RouterForm {
  bool is_sigmoid = false;  ///< else softmax
  bool normalizes = true;   ///< the chosen scores
  /// Only the best groups' experts are looked at; 1: all.
  std::int64_t groups = 1, chosen_groups = 1;
};

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
  RouterForm router = {};
  std::optional<LatentAttention> latent = {};  ///< in the place of grouped queries
  bool norms_heads = true;                     ///< queries and keys, as Qwen3
  bool turns_pairs = false;                    ///< rotary embedding of neighbours, as Llama
  bool ties_head = false;                      ///< lm_head has the embedding's weight
  /// GPT-OSS: attention with sinks, biases, clamped SwiGLU. Every other layer, from the first on,
  /// sees `window` tokens.
  bool has_sinks = false;
  std::int64_t window = 0;
  std::int64_t shared_hidden = 0;  ///< of the experts that all tokens have; 0: none
  /// Blocks without experts, which come first, and their columns; all blocks: it is dense.
  std::int64_t dense_layers = 0, dense_hidden = 0;
};

struct MixtureOptions {
  MixtureShape shape;
  LlamaPart part = {};      ///< of a pipeline's stage
  std::int64_t length = 0;  ///< of the rotary tables, in tokens: of a whole sequence
  Dtype dtype = Dtype::float32;
  const ProcessGroup* ranks = nullptr;  ///< over which experts are spread; null: all are here
  /// Over which heads, columns and vocabulary are split, and between them sequences; without
  /// `ranks` experts' columns, too. Null: nothing is.
  const ProcessGroup* tensor = nullptr;
  /// Over which sequences are split; attention has the keys and values of all. Null: nothing is.
  const ProcessGroup* context = nullptr;
  double load = 1;  ///< tokens that this rank's experts get, by the average
  Float8Recipe float8 = Float8Recipe::none;  ///< of linear layers but the router's and lm_head
};

/// Modules on the meta device. The root takes {ids, positions}, or of a later stage {activations,
/// positions}. The last stage's returns what lm_head, its last child, is to be called with, part by
/// part.
std::shared_ptr<Module> make_mixture(Session& s, const MixtureOptions& options);

/// Whether each of the tensor ranks has the whole parameter of a module, and gradients of its own
/// tokens. Example: a norm's weight; the bias of wo, whose weight is split.
bool is_whole_everywhere(const Module& module, std::string_view parameter);

bool has_moe(Module& block);
/// The modules of a block's mixture and its experts; `block` may be in a checkpoint.
Module& moe_of(Module& block);
Module& grouped_experts_of(Module& block);

}  // namespace shardscope::eager::parallel
