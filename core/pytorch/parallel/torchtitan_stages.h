// How torchtitan cuts a model into the stages of a pipeline. Source: torchtitan 01db32e,
// distributed/pipeline_parallel.py.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace shardscope::eager::parallel {

struct TorchtitanSplit {
  int input_weight = 1;      ///< layers that the embedding counts as
  int output_weight = 1;     ///< that norm and output count as
  int layers_per_stage = 0;  ///< counted so; 0: the number of stages is given
};

/// "torchtitan", "torchtitan:IN,OUT" or "torchtitan:IN,OUT,LAYERS_PER_STAGE"; none where the text
/// does not begin so. Throws Error naming `where`.
std::optional<TorchtitanSplit> parse_torchtitan_split(std::string_view text,
                                                      std::string_view where);

/// generate_llm_fqn_per_model_part: layers of each stage. Throws Error naming `where` as torchtitan
/// does.
std::vector<int> torchtitan_layers(int layers, int stages, const TorchtitanSplit& split,
                                   std::string_view where);

/// Stages of a rank that `layers_per_stage` makes; throws Error naming `where` as torchtitan does.
int torchtitan_stages_per_rank(int layers, int ranks, bool single_stage_schedule,
                               const TorchtitanSplit& split, std::string_view where);

}  // namespace shardscope::eager::parallel
