// Releases of Unsloth that wrote the saved outputs of its notebooks.
#pragma once

#include <string_view>

#include "core/pytorch/engine/adapters/unsloth.h"

namespace shardscope {

/// By the notebook that a row's source names, how its release made the loss.
eager::UnslothLoss unsloth_loss_of(std::string_view source);
}  // namespace shardscope
