#include "core/pytorch/engine/models/masks.h"

#include <functional>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// Indices that broadcast to (B, H, T, T).
struct Indices {
  Tensor batch, head, query, key;
};
using MaskFunction = std::function<Tensor(Session&, const Indices&)>;

Tensor causal(Session& s, const Indices& at) {
  return compare(s, Comparison::le, at.key, at.query);
}

Tensor bidirectional(Session& s, const Indices& at) {
  return compare(s, Comparison::ge, at.query, 0);
}

/// new_ones((), dtype=bool).
Tensor new_truth(Session& s, const Tensor& tensor) {
  return new_ones(s, tensor, {}, Dtype::boolean);
}

MaskFunction both(MaskFunction a, MaskFunction b) {
  return [a = std::move(a), b = std::move(b)](Session& s, const Indices& at) {
    Tensor result = new_truth(s, at.query);
    result = bitwise_and(s, result, a(s, at));
    result = bitwise_and(s, result, b(s, at));
    return result;
  };
}

MaskFunction within_window(std::int64_t window) {
  return [window](Session& s, const Indices& at) {
    return compare(s, Comparison::gt, at.key, sub(s, at.query, window));
  };
}

/// chunked_overlay: keys of the query's chunk, counted from the end of the padding on the left.
MaskFunction within_chunk(std::int64_t chunk, const Tensor& left_padding) {
  return [chunk, left_padding](Session& s, const Indices& at) {
    const auto chunk_of = [&](const Tensor& place) {
      return floor_divide(s, sub(s, place, index(s, left_padding, {at.batch})), chunk);
    };
    Tensor of_key = chunk_of(at.key);
    return compare(s, Comparison::eq, std::move(of_key), chunk_of(at.query));
  };
}

/// How many tokens each sequence has in front that are padding.
Tensor left_padding(Session& s, const MaskRequest& request, const Tensor& padding) {
  if (!padding) return zeros(s, {request.embeddings.size(0)}, {Dtype::int64, s.settings.device});
  Tensor passed = cumsum(s, padding, -1);
  Tensor none = compare(s, Comparison::eq, std::move(passed), zeros_like(s, padding));
  return sum(s, std::move(none), {-1});
}

MaskFunction not_padded(const Tensor& padding) {
  return [padding](Session& s, const Indices& at) { return index(s, padding, {at.batch, at.key}); };
}

/// fast_all, read back to the host.
void ask_all(Session& s, Tensor tensor) {
  item(s, compare(s, Comparison::eq, sum(s, tensor), tensor.numel()));
}

/// remap_positions_for_packed_sequence.
MaskFunction of_positions(MaskFunction function, const Tensor& positions) {
  return [function = std::move(function), positions](Session& s, const Indices& at) {
    Indices own = at;
    own.query = index(s, positions, {at.batch, at.query});
    own.key = index(s, positions, {at.batch, at.key});
    return function(s, own);
  };
}

/// packed_sequence_mask_function.
MaskFunction of_one_sequence(const Tensor& sequences) {
  return [sequences](Session& s, const Indices& at) {
    const Tensor of_query = index(s, sequences, {at.batch, at.query});
    return compare(s, Comparison::eq, of_query, index(s, sequences, {at.batch, at.key}));
  };
}

/// find_packed_sequence_indices; None: one sequence each.
Tensor packed_sequences(Session& s, const Tensor& position_ids, bool are_packed) {
  Tensor first = sub(s, indexed_slice(s, position_ids, 1, 0, 1), 1);
  Tensor changes = differences(s, position_ids, first);
  Tensor packed = cumsum(s, compare(s, Comparison::ne, changes, 1), -1);
  const LetGo let_go{first, changes, packed};
  item(s, all(s, compare(s, Comparison::eq, select(s, packed, 1, packed.size(1) - 1), 0)));
  return are_packed ? packed : Tensor();
}

struct Preprocessed {
  Tensor padding;               ///< the mask that was given, as bool
  Tensor positions, sequences;  ///< of sequences that are packed
};

/// _preprocess_mask_arguments; asks whether sequences are packed.
Preprocessed preprocessed_mask(Session& s, const Context& context, const MaskRequest& request) {
  if (request.attention_mask) return {.padding = to(s, request.attention_mask, Dtype::boolean)};
  if (!request.position_ids || context->cache) return {};
  const std::int64_t batch = request.embeddings.size(0);
  const Tensor positions = request.position_ids.size(0) == batch
                               ? request.position_ids
                               : expand(s, request.position_ids, {batch, -1});
  if (context->settings.ask_packed) {
    context->settings.ask_packed(s, positions);
    return {};
  }
  const Tensor sequences = packed_sequences(s, positions, context->settings.packed);
  return {.padding = {}, .positions = positions, .sequences = sequences};
}

/// _ignore_causal_mask_sdpa. A mask of fake tensors is not looked at.
bool ignores_causal_mask(Session& s, const Context& context, const MaskRequest& request,
                         const Tensor& padding) {
  const bool traced = context->settings.traced && !context->settings.traced_without_masks;
  if (traced || (padding && s.settings.fake_tensors)) return false;
  const std::int64_t tokens = request.embeddings.size(1);
  const auto local = request.chunk ? request.chunk : request.sliding_window;
  if (local && tokens >= *local) return false;
  if (!padding) return true;
  ask_all(s, padding);
  if (!context->settings.masks_something) return true;
  // Keys beyond the queries might be all that is masked: there are none.
  ask_all(s, alias(s, padding));
  return false;
}

/// _ignore_bidirectional_mask_sdpa.
bool ignores_bidirectional_mask(Session& s, const Context& context, const Tensor& padding) {
  if (!padding) return true;
  if (s.settings.fake_tensors) return false;
  item(s, all(s, padding));
  return !context->settings.masks_something;
}

Tensor unsqueezed(Session& s, Tensor tensor, std::initializer_list<int> dims) {
  for (const int dim : dims) tensor = unsqueeze(s, std::move(tensor), dim);
  return tensor;
}

/// _non_vmap_expansion_sdpa.
Indices broadcastable(Session& s, const Indices& at) {
  Indices out;
  out.batch = unsqueezed(s, at.batch, {1, 2, 3});
  out.head = unsqueezed(s, at.head, {0, 2, 3});
  out.query = unsqueezed(s, at.query, {0, 1, 3});
  out.key = unsqueezed(s, at.key, {0, 1, 2});
  return out;
}

/// The end of sdpa_mask: (B, 1, T, T) of bool.
Tensor boolean_mask(Session& s, const MaskRequest& request, const MaskFunction& function) {
  const std::int64_t batch = request.embeddings.size(0), tokens = request.embeddings.size(1);
  const Like indices{Dtype::int64, s.settings.device};
  Indices at;
  const LetGo let_go{at.batch, at.head, at.query, at.key};
  at.batch = arange(s, batch, indices);
  at.head = arange(s, 1, indices);
  at.query = add(s, arange(s, tokens, indices), 0);
  at.key = add(s, arange(s, tokens, indices), 0);
  Tensor mask = function(s, broadcastable(s, at));
  return expand(s, std::move(mask), {batch, -1, tokens, tokens});
}

/// The end of eager_mask: zeros and the least number of the dtype.
Tensor float_mask(Session& s, const MaskRequest& request, const Tensor& mask) {
  const Like like{request.embeddings.dtype(), s.settings.device};
  Tensor zero = zeros(s, {}, like);
  Tensor least = scalar_tensor(s, like);
  return where(s, mask, std::move(zero), std::move(least));
}

Tensor finished(Session& s, const Context& context, const MaskRequest& request,
                MaskFunction function, const Tensor& padding) {
  if (padding) function = both(std::move(function), not_padded(padding));
  Tensor mask = boolean_mask(s, request, function);
  if (context->settings.attention == AttentionImplementation::sdpa) return mask;
  return float_mask(s, request, mask);
}

}  // namespace

Tensor differences(Session& s, const Tensor& positions, Tensor first) {
  const LetGo let_go{first};
  const Tensor all = cat(s, {first, positions}, -1);
  const std::int64_t count = positions.size(-1);
  // C++ evaluates the second operand of the difference first.
  Tensor before = narrow(s, all, -1, 0, count);
  Tensor after = narrow(s, all, -1, 1, count);
  return sub(s, std::move(after), std::move(before));
}

Tensor create_causal_mask(Session& s, const Context& context, const MaskRequest& request) {
  const auto [padding, positions, sequences] = preprocessed_mask(s, context, request);
  // flash_attention_mask: None without padding.
  const bool keeps_apart = context->settings.tokens_of_sequence > 0;
  const bool flash = context->settings.attention == AttentionImplementation::flash || keeps_apart;
  if (flash && !padding) return {};
  Tensor before;
  if (request.chunk) before = left_padding(s, request, padding);
  const bool skips = context->settings.attention == AttentionImplementation::sdpa && !sequences;
  if (skips && ignores_causal_mask(s, context, request, padding)) return {};
  MaskFunction function = causal;
  if (request.sliding_window) function = both(within_window(*request.sliding_window), causal);
  if (request.chunk) function = both(within_chunk(*request.chunk, before), causal);
  if (sequences)
    function = both(of_positions(std::move(function), positions), of_one_sequence(sequences));
  return finished(s, context, request, std::move(function), padding);
}

Tensor create_bidirectional_mask(Session& s, const Context& context, const MaskRequest& request) {
  MaskRequest without_positions = request;
  without_positions.position_ids = {};
  const Tensor padding = preprocessed_mask(s, context, without_positions).padding;
  if (ignores_bidirectional_mask(s, context, padding)) return {};
  return finished(s, context, request, bidirectional, padding);
}

}  // namespace shardscope::eager
