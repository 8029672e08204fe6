// Hugging Face models as transformers 5.23 runs them, on the symbolic engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/pytorch/engine/models/liger.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// attn_implementation. flash: a kernel of FlashAttention, which masks by itself, windows and sinks
/// included. megatron: Megatron-LM's own products and softmax, without its fused kernel.
enum class AttentionImplementation : std::uint8_t { eager, sdpa, flash, megatron };
/// experts_implementation: all experts in one launch, or a loop over them.
enum class ExpertsImplementation : std::uint8_t { grouped_mm, loop };

/// How a causal language model makes its loss from labels.
enum class LanguageLoss : std::uint8_t {
  upcast,  ///< transformers: of logits in float32
  copied,  ///< of a copy of the logits without the last token's, in their dtype: modeling_qwen.py
  cut,     ///< in training cut-cross-entropy, which makes no logits
  /// As copied, of logits that the model makes float32 first: transformers until 4.45.
  floated,
  /// Log-probabilities of the labelled tokens, of logits in tiles: TRL's fused head.
  tiled,
};

/// What TRL asks of its fused head beside log-probabilities (add_fused_lm_head, `outputs`).
struct TiledHead {
  bool entropy = false, mean_logits = false, top1 = false;
  std::int64_t prompt = 0;  ///< tokens at the start of a sequence that are not labelled
};

/// What the router sent to an expert.
struct ExpertShare {
  std::int64_t expert;
  std::int64_t tokens;
};
/// Of the experts that were hit, in their order.
using ExpertShares = std::vector<ExpertShare>;

/// How a model is run, and what its host code reads of values that are not modelled here.
struct ModelSettings {
  AttentionImplementation attention = AttentionImplementation::sdpa;
  bool has_sdpa = true;  ///< false: transformers raises where sdpa is asked for
  ExpertsImplementation experts = ExpertsImplementation::grouped_mm;
  bool use_cache = false;
  LigerKernels liger = {};
  LanguageLoss loss = LanguageLoss::upcast;
  TiledHead tiled = {};
  /// Without labels: logits in float32, as torchtune's TransformerDecoder returns them.
  bool float_logits = false;
  /// Without labels: logits in as many parts along the sequence, which take the place of one output
  /// (torchtune's set_num_output_chunks). 0: whole.
  int logit_chunks = 0;
  /// logits_to_keep: logits are made of tokens from this one on, and labels are cut to them.
  std::int64_t first_logit = 0;
  /// Of litgpt's GPT: logits in parts of so many tokens (lm_head_chunk_size). 0: whole.
  std::int64_t logit_chunk_tokens = 0;
  bool dropout = true;  ///< false: as if the config's probabilities were 0
  /// Of families with LlamaAttention: torchtitan's Attention in its place (torchtitan_attention.h).
  bool torchtitan_attention = false;
  /// Whether an attention mask that is given masks anything.
  bool masks_something = true;
  /// torch.compile traces the forward: a causal mask is made even where attention could do without.
  bool traced = false;
  /// transformers until 4.52: none is made while a model is trained, traced or not. Source: 4.52.4,
  /// modeling_attn_mask_utils.py, "is_training or not is_tracing"; 4.57.6 and 5 lack it.
  bool traced_without_masks = false;
  /// Of the loop over experts: by layer; missing: every expert gets its even share.
  std::vector<ExpertShares> routing;
  /// Several sequences are packed into one, so that a mask has to keep them apart.
  bool packed = false;
  /// Of the sequences that lie in one row, which FlashAttention keeps apart. 0: none lie so.
  std::int64_t tokens_of_sequence = 0;
  /// The question whether they are, where the answer is no and a tool has its own; empty: as
  /// transformers asks it (masking_utils.py, find_packed_sequence_indices).
  std::function<void(Session&, Tensor position_ids)> ask_packed;
};

/// What transformers runs the model with unless it is told otherwise.
ModelSettings usual_settings(const Model& model);

/// Whether LanguageLoss and logit_chunks change the model: its class is XForCausalLM with a head
/// that is called lm_head.
bool makes_language_loss(const Model& model);

/// The model's tree of modules with fresh parameters and buffers on the session's device, in train
/// mode, without forwards. `default_rope`: rotary buffers are made as transformers makes them.
std::shared_ptr<Module> make_module_tree(Session& s, const Model& model, bool default_rope = false);

/// The model's tree of modules with fresh parameters and buffers on the session's device, in train
/// mode. The root takes {input ids, attention mask, labels}, the last two None where there are
/// none, and returns {loss, logits, whatever else its output object holds}; loss None without
/// labels. `config` is the config.json that `model` was made from. Error for a class that is not
/// ported.
std::shared_ptr<Module> make_module(Session& s, const Model& model, const JsonValue& config,
                                    const ModelSettings& settings);

}  // namespace shardscope::eager
