// The attention of torchtitan's Llama on the modules of transformers' LlamaAttention.
#pragma once

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// Queries and keys turn as complex numbers in float32, and keys and values are repeated for all
/// heads of queries. {hidden states, mask, table}; the mask is not looked at. Source: torchtitan
/// 9dec370, models/llama/model.py (Attention, apply_rotary_emb, repeat_kv).
Module::Forward torchtitan_attention(std::int64_t head_size);
/// {hidden states, position ids} to the table of rotations (1, T, 1, D / 2, 2), twice. torchtitan
/// has it as a buffer; here each forward makes it.
Module::Forward torchtitan_rotations();

}  // namespace shardscope::eager
