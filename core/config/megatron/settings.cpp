#include "core/config/megatron/settings.h"

#include <algorithm>
#include <cstddef>

namespace shardscope::megatron {
std::string_view name_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "?";
}

std::int64_t Settings::sequences() const {
  return global_batch > 0 ? global_batch : micro_batch * data();
}

std::int64_t Settings::micro_batches() const {
  return std::max<std::int64_t>(1, sequences() / (micro_batch * data()));
}

std::int64_t Settings::padded_vocabulary() const {
  const std::int64_t multiple = vocabulary_multiple * tensor;
  return (shape.vocabulary + multiple - 1) / multiple * multiple;
}

std::vector<int> Settings::stage_layers() const {
  const bool has_first = first_rank_layers > 0, has_last = last_rank_layers > 0;
  const std::int64_t counted = layers_to_share();
  const std::int64_t sharing = pipeline - (has_first ? 1 : 0) - (has_last ? 1 : 0);
  std::vector<int> layers;
  for (int chunk = 0; chunk < stages_per_rank; ++chunk)
    for (int rank = 0; rank < pipeline; ++rank) {
      std::int64_t of_rank = sharing > 0 ? counted / sharing : 0;
      if (has_first && rank == 0) of_rank = first_rank_layers;
      if (has_last && rank + 1 == pipeline) of_rank = last_rank_layers;
      layers.push_back(static_cast<int>(of_rank / stages_per_rank));
    }
  if (embedding_as_layer) --layers.front();
  if (loss_as_layer) --layers.back();
  return layers;
}

std::int64_t Settings::layers_to_share() const {
  return shape.layers - first_rank_layers - last_rank_layers + (embedding_as_layer ? 1 : 0) +
         (loss_as_layer ? 1 : 0);
}

void Settings::take_length(std::int64_t tokens) {
  shape.seq = tokens;
  if (positions != Positions::learned && max_positions > 0)
    max_positions = std::max(max_positions, tokens);
}

std::int64_t Settings::position_rows() const {
  if (positions != Positions::learned) return 0;
  return max_positions > 0 ? max_positions : shape.seq;
}

}  // namespace shardscope::megatron
