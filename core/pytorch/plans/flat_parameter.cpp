#include "core/pytorch/plans/flat_parameter.h"

#include <algorithm>

namespace shardscope {
namespace {

std::int64_t up_to_multiple(std::int64_t elements, std::int64_t of) {
  return (of - elements % of) % of;
}

}  // namespace

FlatParameter lay_out(const FlatParameterInput& input) {
  FlatParameter flat;
  std::int64_t total = 0;
  const auto add_fill = [&](std::int64_t multiple) {
    if (input.alignment_elements == 0) return;
    const std::int64_t elements = up_to_multiple(total, multiple);
    if (elements == 0) return;
    flat.fill.push_back(
        {.before = static_cast<std::int32_t>(flat.elements.size()), .elements = elements});
    total += elements;
  };
  for (const std::int64_t elements : input.parameter_elements) {
    add_fill(input.alignment_elements);
    flat.begins.push_back(total);
    flat.elements.push_back(elements);
    total += elements;
  }
  add_fill(input.ranks);
  flat.unpadded_elements = total;
  flat.shards = input.sharded ? input.ranks : 1;
  flat.shard_elements = (total + flat.shards - 1) / flat.shards;
  return flat;
}

std::optional<ParameterPart> part_of(const FlatParameter& flat, std::size_t parameter, int shard) {
  // Inclusive ends, as in _get_shard_metadata: they decide where a parameter without elements is.
  const std::int64_t shard_first = flat.shard_elements * shard;
  const std::int64_t shard_last = shard_first + flat.shard_elements - 1;
  const std::int64_t first = flat.begins[parameter];
  const std::int64_t last = first + flat.elements[parameter] - 1;
  if (shard_first > last || shard_last < first) return std::nullopt;
  const std::int64_t begin = std::max(first, shard_first);
  return ParameterPart{.first = begin - first,
                       .elements = std::min(last, shard_last) - begin + 1,
                       .offset = begin - shard_first};
}

namespace {

/// The first parameter that may lie in a shard: the one before those that begin in it.
std::size_t first_candidate(const FlatParameter& flat, int shard) {
  const auto first =
      std::lower_bound(flat.begins.begin(), flat.begins.end(), flat.shard_elements * shard);
  const auto index = static_cast<std::size_t>(first - flat.begins.begin());
  return index == 0 ? 0 : index - 1;
}

}  // namespace

ShardPiece piece_of(const FlatParameter& flat, int shard) {
  ShardPiece piece;
  const std::int64_t end = flat.shard_elements * (shard + std::int64_t{1});
  piece.padding_elements =
      std::clamp(end - flat.unpadded_elements, std::int64_t{0}, flat.shard_elements);
  for (std::size_t i = first_candidate(flat, shard);
       i < flat.begins.size() && flat.begins[i] <= end; ++i) {
    const std::optional<ParameterPart> part = part_of(flat, i, shard);
    if (!part) continue;
    const auto index = static_cast<std::int32_t>(i);
    if (!piece.range)
      piece.range = {.first = index, .first_element = part->first, .offset = part->offset};
    piece.range->last = index;
    piece.range->last_element = part->first + part->elements - 1;
    piece.elements += part->elements;
  }
  return piece;
}

}  // namespace shardscope
