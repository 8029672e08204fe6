// Modules of torchtitan's mixtures while they are built, and what their rotary embeddings share.
#pragma once

#include <string>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/parallel/mixture.h"

namespace shardscope::eager::parallel {

/// A module under `parent`, in which it is called `own`.
Module& add_module(Module& parent, const std::string& own, std::string class_name);
/// On the meta device.
void add_parameter(Session& s, Module& module, const char* name, Dtype dtype, const Dims& sizes);
void add_buffer(Session& s, Module& module, const char* name, const Dims& sizes);
void add_norm(Session& s, Module& parent, const std::string& own, Dtype dtype, std::int64_t size);
/// Without a bias, and never in float8; `sizes` are (out, in).
Module& add_exact_linear(Session& s, Module& parent, const std::string& own, Dtype dtype,
                         const Dims& sizes);
/// In float8 where that is asked for and 16 divides its sizes. Source of both: torchtitan 0.3.0,
/// components/quantization/ (float8.py, utils.py) and models/deepseek_v3/config_registry.py
/// (filter_fqns).
Module& add_linear(Session& s, Module& parent, const std::string& own, const MixtureOptions& o,
                   const Dims& sizes);
Module& add_biased_linear(Session& s, Module& parent, const std::string& own,
                          const MixtureOptions& o, const Dims& sizes);
inline int tensor_ranks(const MixtureOptions& o) { return o.tensor ? o.tensor->size() : 1; }
/// RowwiseParallel: `sizes` are of the whole weight, whose columns are split; its result lies in
/// parts of the sequence.
Module& add_row_linear(Session& s, Module& parent, const std::string& own, const MixtureOptions& o,
                       const Dims& sizes);
/// w2(silu(w1 x) * w3 x).
Module& add_feed_forward(Session& s, Module& parent, const std::string& own,
                         const MixtureOptions& o, std::int64_t hidden);

/// FusedQKVLinear under "qkv_linear": of each head of keys its queries, key and value lie together.
void add_fused_projection(Session& s, Module& attention, const MixtureOptions& o, bool has_bias);
/// (B, T, H, D) of a rank's tokens.
struct AttentionHeads {
  Tensor query, key, value;
};
/// By "qkv_linear", norms of heads where there are any, and "rope". Arguments: tokens, positions.
AttentionHeads rotated_heads(Session& s, Module& attention, const Arguments& arguments);
/// CosSinRoPE under "rope".
void add_half_rotary(Session& s, Module& attention, const MixtureOptions& o);

/// _reshape_for_broadcast: of a table (length, width) the rows of each position, (B, T, 1, width).
Tensor table_rows(Session& s, const Tensor& table, const Tensor& positions);
/// torch._assert_async of the positions' bound.
void check_positions(Session& s, const Tensor& positions, std::int64_t rows);

}  // namespace shardscope::eager::parallel
