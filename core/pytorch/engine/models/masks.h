// Attention masks. Source: transformers 5.23, masking_utils.py.
#pragma once

#include <cstdint>
#include <optional>

#include "core/pytorch/engine/models/context.h"

namespace shardscope::eager {

/// The arguments of create_causal_mask and its relatives.
struct MaskRequest {
  Tensor embeddings;      ///< inputs_embeds, (B, T, H): its sizes and dtype count
  Tensor attention_mask;  ///< (B, T) or None
  Tensor position_ids;    ///< None: the question of packed sequences is not asked
  std::optional<std::int64_t> sliding_window = {};
  std::optional<std::int64_t> chunk = {};  ///< attention_chunk_size
};

/// None: the attention kernel masks by itself. Of a chunk: create_chunked_causal_mask.
Tensor create_causal_mask(Session& s, const Context& context, const MaskRequest& request);
/// None: nothing is masked.
Tensor create_bidirectional_mask(Session& s, const Context& context, const MaskRequest& request);

/// torch.diff(positions, prepend=first): the rows that it makes.
Tensor differences(Session& s, const Tensor& positions, Tensor first);

}  // namespace shardscope::eager
