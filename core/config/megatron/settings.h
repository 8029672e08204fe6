// A training of Megatron-LM as its command line says it: model, division over ranks, batch,
// recomputation.
#pragma once

#include <cstdint>
#include <map>
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

/// How tokens know their place.
enum class Positions : std::uint8_t { learned, rotary, none };

/// Low-rank adapters beside all linear layers of blocks, of a base that does not train.
struct Adapters {
  std::int64_t rank = 0;           ///< 0: the model itself trains
  bool trains_embeddings = false;  ///< copies of embedding and output layer train beside them
  bool operator==(const Adapters&) const = default;
};

/// Defaults are those of Megatron-LM's arguments, unless something else is said.
struct Settings {
  DecoderShape shape;  ///< its vocabulary as the tokenizer has it, its `seq` of the whole sequence
  bool gated = false;  ///< SwiGLU
  bool biases = true;  ///< of linear layers
  bool layer_norm = true;  ///< else RMSNorm, which has no bias
  Positions positions = Positions::learned;
  /// At least the tokens of a sequence; rows of learned positions. 0: tokens of a sequence.
  std::int64_t max_positions = 0;
  std::int64_t rotary_base = 10000;
  bool norms_queries = false;  ///< and keys: qk_layernorm
  bool tied = true;            ///< the output layer is the embedding again
  std::int64_t vocabulary_multiple = 128;
  double hidden_dropout = 0.1, attention_dropout = 0.1;

  int world = 1;
  int tensor = 1, pipeline = 1, context = 1, expert = 1;
  int stages_per_rank = 1;          ///< virtual ones
  bool embedding_as_layer = false;  ///< account_for_embedding_in_pipeline_split
  bool loss_as_layer = false;       ///< account_for_loss_in_pipeline_split
  /// Of all stages of the first and last pipeline rank; 0: as many as the ranks between.
  std::int64_t first_rank_layers = 0, last_rank_layers = 0;
  bool sequence_parallel = false;
  bool overlaps_tensor = false;  ///< tp_comm_overlap
  bool distributed_optimizer = false;
  bool optimizer_on_host = false;  ///< optimizer_cpu_offload of all; known to what a rank holds
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
  bool fused_loss = false;     ///< Transformer Engine's cross entropy, of versions that take it
  bool compiled_loss = false;  ///< cross_entropy_loss_fusion of the kind "native"
  Float8 float8 = Float8::none;
  Adapters adapters = {};  ///< known to what a rank holds; times are those of whole training

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
  /// By stage, in order: rank 0's first, rank 1's first, ... Source: Megatron-LM
  /// core/transformer/transformer_block.py (get_num_layers_to_build). Example: 30 layers on 4 ranks
  /// of which the first has 6: 6, 8, 8, 8.
  std::vector<int> stage_layers() const;
  /// Of the pipeline ranks that no setting of their own gives layers, embedding and loss counted in
  /// where they stand for one.
  std::int64_t layers_to_share() const;
  /// Sequences of `tokens`. Positions without a table go as far as they have to.
  void take_length(std::int64_t tokens);
  /// Rows of the table of learned positions; 0: there is none.
  std::int64_t position_rows() const;
  bool operator==(const Settings&) const = default;
};

/// What cannot be trained, or is not predicted.
struct Contradiction {
  std::string_view flag;  ///< that says it, or most of it: "num-experts"
  std::string what, way_out;
  bool is_refused = true;  ///< by Megatron-LM; else it would train, and it is not predicted here
};

/// What Megatron-LM's own checks refuse (arguments.py, validate_args; transformer_config.py), what
/// does not divide, and what is not predicted. The first ones are sizes out of range: where there
/// are such, nothing else was looked at. `batch_too`: the batch of a step, which is not known yet
/// where it is false.
std::vector<Contradiction> contradictions(const Settings& settings, bool batch_too = true);

/// Where settings were said.
struct Origin {
  std::string otherwise;  ///< what is named for a flag that stands nowhere: "run.sh"
  /// By flag: "run.sh:12: --num-experts", "--mesh".
  std::map<std::string, std::string, std::less<>> places = {};
  std::string place_of(std::string_view flag) const;
};

/// Throws Error naming the place of the first contradiction.
void check(const Settings& settings, const Origin& origin, bool batch_too = true);

}  // namespace shardscope::megatron
