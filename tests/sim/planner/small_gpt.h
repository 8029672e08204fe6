// A small GPT under Megatron-LM on four ranks.
#pragma once

#include "core/config/megatron/settings.h"

namespace shardscope::planner {

inline megatron::Settings small_gpt() {
  megatron::Settings s;
  s.shape = {.family = "gpt2",
             .hidden = 1024,
             .layers = 4,
             .heads = 8,
             .kv_heads = 8,
             .ffn = 4096,
             .vocabulary = 32000,
             .seq = 1024,
             .head_size = 128};
  s.hidden_dropout = s.attention_dropout = 0;
  s.world = 4;
  s.global_batch = 16;
  return s;
}

}  // namespace shardscope::planner
