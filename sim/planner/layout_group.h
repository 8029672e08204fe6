// Layouts of torchtitan that differ in few things, weighed together until one of them may win.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "sim/planner/bounds.h"
#include "sim/planner/choice.h"

namespace shardscope::planner {

/// In what the members of a group differ.
struct LayoutVariant {
  eager::CheckpointChoice checkpointing;
  StageBalance balance = StageBalance::layers;
  std::vector<int> layers = {};  ///< of each stage; empty: by `balance`
};

struct LayoutVariants {
  std::vector<LayoutVariant> all;
  int fewest_layers = 0;  ///< of any stage in any of them
};

struct LayoutGroup {
  Choice common;  ///< of all members: nothing is checkpointed, layers by number
  std::shared_ptr<const LayoutVariants> variants;

  std::size_t size() const { return variants->all.size(); }
  Choice member(std::size_t number) const;
};

/// How layers can be dealt out to so many stages in torchtitan, each stage one at least: by number,
/// by work where that is another way, and with embedding and output layer counted as 0 to 3 layers
/// (core/pytorch/parallel/torchtitan_stages.h). Each list occurs once.
std::vector<LayoutVariant> layer_variants(const Model& model, const PipelineChoice& pipeline,
                                          int stages);

/// Every k-th block checkpointed, for each k from `least` on that checkpoints another number of
/// blocks of a stage than a smaller one. Example: stages of 5 blocks, from 2 on: 2 (two blocks), 3
/// (one); 4 and 5 checkpoint one as well.
std::vector<eager::CheckpointChoice> sparse_checkpointings(std::span<const int> layers, int least);

/// No member of the group takes less time or memory. Of a pipeline of p ranks and m micro-batches
/// whose stages take Y of each, however layers are dealt out,
///
///   time >= Y / (1 - (1 - 1/m)^p)            one stage a rank, whole backward
///   time >= m Y / p + (p - 1)/2 (f + b)      whole backward
///   time >= m Y / p + (p - 1)/2 f + update / p
///   memory >= (P + OS) / p
///
/// where f and b are forward and backward of the fewest layers of a stage. The first follows from
/// m y_r + y_0 + ... + y_(r-1) <= time for each rank r (`pipeline_time_bound`): it is least where
/// all of these are equal. The others are means of the ranks. With GPipe and LoopedBFS memory has
/// all micro-batches beside it. After a `stop`, and where nothing can be computed: 0.
std::vector<Bounds> group_floors(std::span<const LayoutGroup> groups, const TrialInputs& inputs,
                                 unsigned threads, const std::stop_token& stop = {});

}  // namespace shardscope::planner
