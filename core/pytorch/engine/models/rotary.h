// Rotary position embeddings.
#pragma once

#include <utility>

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// LlamaRotaryEmbedding and its relatives: {hidden states, position ids} to {cos, sin}.
Module::Forward rotary_embedding_forward(const Context& context, const Module& module);
/// OLMo 2: cosines and sines stay in float32.
Module::Forward float_rotary_embedding_forward(const Context& context, const Module& module);

/// Cohere's: each frequency twice, one beside the other.
Module::Forward paired_rotary_embedding_forward(const Context& context, const Module& module);

/// apply_rotary_pos_emb of modeling_llama.py: query and key (B, H, T, D), cos and sin (B, T, D).
std::pair<Tensor, Tensor> apply_rotary(Session& s, const Tensor& query, const Tensor& key,
                                       const Tensor& cos, const Tensor& sin);
/// modeling_olmo2.py's: turned in float32, and cast back.
std::pair<Tensor, Tensor> apply_float_rotary(Session& s, const Tensor& query, const Tensor& key,
                                             const Tensor& cos, const Tensor& sin);
/// modeling_phi3.py's: of the first of the head's dimensions, the rest passed by.
std::pair<Tensor, Tensor> apply_partial_rotary(Session& s, const Tensor& query, const Tensor& key,
                                               const Tensor& cos, const Tensor& sin);
/// modeling_gpt_neox.py's: as Phi-3's, but both are turned before one is joined.
std::pair<Tensor, Tensor> apply_neox_rotary(Session& s, const Tensor& query, const Tensor& key,
                                            const Tensor& cos, const Tensor& sin);
/// modeling_glm4.py's: of the first of the head's dimensions, which are turned in pairs.
std::pair<Tensor, Tensor> apply_interleaved_rotary(Session& s, const Tensor& query,
                                                   const Tensor& key, const Tensor& cos,
                                                   const Tensor& sin);
/// modeling_ernie4_5.py's: whole heads, which are turned in pairs, in float32, and cast back.
std::pair<Tensor, Tensor> apply_float_interleaved_rotary(Session& s, const Tensor& query,
                                                         const Tensor& key, const Tensor& cos,
                                                         const Tensor& sin);
/// modeling_cohere.py's: neighbours, in float32, and cast back.
std::pair<Tensor, Tensor> apply_float_paired_rotary(Session& s, const Tensor& query,
                                                    const Tensor& key, const Tensor& cos,
                                                    const Tensor& sin);
/// modeling_deepseek_v3.py's apply_rotary_pos_emb_interleave: neighbours, which come out as halves.
std::pair<Tensor, Tensor> apply_paired_rotary(Session& s, const Tensor& query, const Tensor& key,
                                              const Tensor& cos, const Tensor& sin);
/// modeling_gpt_oss.py's: the halves of a head, by cos and sin of half its size.
std::pair<Tensor, Tensor> apply_half_rotary(Session& s, const Tensor& query, const Tensor& key,
                                            const Tensor& cos, const Tensor& sin);
/// modeling_llama4.py's: query and key (B, T, H, D) as complex numbers, by rotations
/// (B, T, 1, D/2, 2); its local variables live until it returns.
std::pair<Tensor, Tensor> apply_complex_rotary(Session& s, const Tensor& query, const Tensor& key,
                                               const Tensor& rotations);
/// rotate_half: the halves of the last dimension swapped, one negated.
Tensor rotate_half(Session& s, const Tensor& x);
/// The same of neighbours: rotate_every_two of modeling_gptj.py. x has four dimensions.
Tensor rotate_every_two(Session& s, const Tensor& x);

}  // namespace shardscope::eager
