// Releases of Unsloth that wrote the saved outputs of its notebooks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"
#include "core/pytorch/engine/adapters/pretrained.h"
#include "core/pytorch/engine/adapters/unsloth.h"
#include "sim/allocator/allocator_settings.h"

namespace shardscope {

/// By the notebook that a row's source names: how its release made the loss. The newest way for a
/// notebook that is not known.
eager::UnslothLoss unsloth_loss_of(std::string_view source);

/// What the transformers of that release ask the allocator for before loading. Saved outputs print
/// 4.46 with Unsloth 2024.11, and 4.51 from 2025.4 on.
eager::WarmUp unsloth_warm_up_of(std::string_view source);

/// What that release told the caching allocator, as PYTORCH_CUDA_ALLOC_CONF.
AllocatorSettings unsloth_allocator_of(std::string_view source);

/// The same of tables of cosines and sines.
eager::UnslothRotary unsloth_rotary_of(std::string_view source);

/// Modules of `base` that the notebook's file in 4 bits leaves in 16 bits (llm_int8_skip_modules),
/// which its size tells: Unsloth's dynamic 4 bits leave whole feed-forward layers out. Which ones
/// is not told, so that the first are taken. Empty: none but the head.
/// Example: Qwen3-14B in 4 bits has 9.93 GB, and 267,386,880 weights in a feed-forward layer. The
/// notebook's file has 11.12 GB: (11.12 - 9.93) / (0.267 * (2 - 0.516)) = 3 layers.
std::vector<std::string> unsloth_unquantized(std::string_view source, const Model& base);

}  // namespace shardscope
