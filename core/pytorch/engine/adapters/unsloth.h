// What Unsloth's FastLanguageModel makes of a model that it has loaded and PEFT has adapted: its
// own forwards of norms, attention, feed-forward layers and the head. Source: unsloth 2026.8.11,
// models/llama.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/quantities.h"
#include "core/format/json_reader.h"
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/adapters/unsloth_checkpoint.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

inline constexpr Bytes most_unsloth_loss_memory{std::int64_t{4} << 30};
/// What fused_losses/cross_entropy_loss.py allows the logits of a part: half of what the device has
/// free at the first loss, 4 GiB at most. Example: of 9 GiB free 4 GiB, of 6 GiB free 3 GiB.
Bytes unsloth_loss_memory(Bytes free);

/// How the head makes its loss. With cut-cross-entropy a batch of so many tokens still has whole
/// logits.
inline constexpr std::int64_t most_tokens_with_whole_logits = 1024;
enum class UnslothLoss : std::uint8_t {
  parts,  ///< unsloth_fused_loss: releases from August 2025 on
  cut,    ///< of more tokens cut-cross-entropy, else whole: from 17 November 2024 on
  whole,  ///< Fast_CrossEntropyLoss, of whole logits in the weights' dtype: before
};

/// Tables of cosines and sines: LlamaRotaryEmbedding of models/llama.py.
enum class UnslothRotary : std::uint8_t {
  /// One of the model, of all positions from the first forward on: releases from 7 January 2025 on
  /// (2025.1.1, 63782ea3).
  shared,
  grown_of_layers,  ///< one of each layer, of at most 32,768 positions: from 18 July 2024 on
  whole_of_layers,  ///< one of each layer, of all positions: before
};

struct UnslothSettings {
  /// use_gradient_checkpointing="unsloth"; false: PyTorch's reentrant checkpoints.
  bool offloads_inputs = true;
  /// Attention in xformers' kernels, which take no grouped heads; false: PyTorch's, as without
  /// xformers.
  bool xformers = true;
  /// For the float32 logits of a part of the loss: unsloth_loss_memory.
  Bytes loss_memory = most_unsloth_loss_memory;
  UnslothLoss loss = UnslothLoss::parts;
  UnslothRotary rotary = UnslothRotary::shared;
  bool operator==(const UnslothSettings&) const = default;
};

/// Whether the patches of a family are known here: those of llama.py, mistral.py, qwen2.py and
/// qwen3.py are.
bool has_unsloth_patches(std::string_view family);

/// What is patched, and with what.
struct UnslothRequest {
  const UnslothSettings& settings;
  const JsonValue& config;
  const QuantizedLayers& quantized;
  Dtype dtype = Dtype::bfloat16;  ///< that the base is loaded in
};

/// Replaces the forwards below `root`, a PeftModel. Adapted layers with a bias or a dropout keep
/// PEFT's own. Error for a family whose patches are not known.
void patch_unsloth(Session& s, Module& root, const UnslothRequest& request);

}  // namespace shardscope::eager
