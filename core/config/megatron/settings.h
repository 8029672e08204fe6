// A training of Megatron-LM as its command line says it: model, division over ranks, batch,
// recomputation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/config/megatron/decoder_shape.h"

namespace shardscope::megatron {

enum class Recompute : std::uint8_t { none, selective, full };
/// "none", "selective", "full".
std::string_view name_of(Recompute recompute);

/// Whose attention runs: Transformer Engine's choice, FlashAttention, or products and softmax.
enum class Attention : std::uint8_t { engine, flash, unfused };

/// Linear layers of blocks in 8 bits, by the scaling of Transformer Engine's recipe.
enum class Float8 : std::uint8_t { none, delayed, current };

/// Defaults are those of Megatron-LM's arguments, unless something else is said.
struct Settings {
  DecoderShape shape;  ///< its vocabulary as the tokenizer has it, its `seq` of the whole sequence
  bool gated = false;  ///< SwiGLU
  bool biases = true;  ///< of linear layers
  bool layer_norm = true;  ///< else RMSNorm, which has no bias
  bool rotary = false;     ///< rotary positions, else learned ones
  bool tied = true;        ///< the output layer is the embedding again
  std::int64_t vocabulary_multiple = 128;
  double hidden_dropout = 0.1, attention_dropout = 0.1;

  int world = 1;
  int tensor = 1, pipeline = 1, context = 1, expert = 1;
  int stages_per_rank = 1;          ///< virtual ones
  bool embedding_as_layer = false;  ///< account_for_embedding_in_pipeline_split
  bool loss_as_layer = false;       ///< account_for_loss_in_pipeline_split
  bool sequence_parallel = false;
  bool overlaps_tensor = false;  ///< tp_comm_overlap
  bool distributed_optimizer = false;
  bool overlaps_gradients = false, overlaps_parameters = false;
  Dtype gradients = Dtype::float32;  ///< kept and reduced
  bool pads_experts = false;         ///< moe_pad_expert_input_to_capacity

  std::int64_t micro_batch = 1;   ///< sequences
  std::int64_t global_batch = 0;  ///< sequences of a step; 0: a micro-batch of each rank

  Recompute recompute = Recompute::none;
  bool by_block = false;                ///< recompute_method block, else uniform
  std::int64_t recompute_layers = 1;    ///< recompute_num_layers
  bool distributes_recomputed = false;  ///< distribute_saved_activations
  Attention attention = Attention::engine;
  Dtype parameters = Dtype::bfloat16;  ///< or float16, float32
  bool fused_accumulation = true;      ///< products of weights' gradients add them up
  bool fused_loss = false;             ///< Transformer Engine's cross entropy
  Float8 float8 = Float8::none;

  /// Ranks that have the same part of the model, those of one sequence counted in.
  int data_context() const { return world / (tensor * pipeline); }
  /// Ranks that have sequences of their own.
  int data() const { return data_context() / context; }
  std::int64_t sequences() const;      ///< of a step
  std::int64_t micro_batches() const;  ///< of a step, of one rank
  /// Filled up so that each tensor-parallel rank has the same multiple of tokens. Source:
  /// megatron/training/tokenizer (vocab_size_with_padding). Example: 50257 tokens, multiple 128, 2
  /// ranks: 50432.
  std::int64_t padded_vocabulary() const;
  /// By stage, in order: rank 0's first, rank 1's first, ...
  std::vector<int> stage_layers() const;
  bool operator==(const Settings&) const = default;
};

/// Throws Error naming `where` with what Megatron-LM's own checks refuse (arguments.py,
/// validate_args; transformer_config.py), and what does not divide.
void check(const Settings& settings, std::string_view where);

}  // namespace shardscope::megatron
