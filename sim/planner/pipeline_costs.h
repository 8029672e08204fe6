// What the parts of a model take that a pipeline deals out to its stages, and what follows from it
// for the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/quantities.h"
#include "core/pipeline/compute_order.h"
#include "core/pipeline/setup.h"
#include "sim/engine/pipeline_timeline.h"

namespace shardscope::planner {

/// Of one micro-batch.
struct PartCost {
  ChunkTime time;
  Duration last_forward;  ///< of it the last operator's, which makes the output
  Bytes kept;             ///< activations between forward and backward
  std::int64_t operations = 0;
};

/// The native runtime's, of a model that is not cut, or torchtitan's. Head and loss belong to the
/// backward.
struct ModelCosts {
  PartCost embedding, head;
  std::vector<PartCost> blocks;
  Duration launch;  ///< of an operation by the host
  /// `blocks` are by their places in a stage, where torchtitan counts those that it checkpoints.
  bool are_of_places = false;
};

/// Elements of the parameters of a part of a model, without norms and positions outside of blocks.
struct PartElements {
  std::int64_t trained = 0, all = 0;
};
struct ModelElements {
  PartElements embedding, head;
  bool tied = false;  ///< these two are one
  std::vector<PartElements> blocks;
};

/// By stage.
struct StageCosts {
  std::vector<ChunkTime> chunks;
  std::vector<Duration> again;  ///< of a forward that is run again as a whole
  std::vector<Bytes> kept;
  std::vector<Duration> launches;  ///< of forward and backward together
};
/// `blocks`: how many each stage has.
StageCosts stage_costs(const ModelCosts& model, const std::vector<int>& blocks);

/// No step takes less: a rank's first forward waits for those of the stages before, its last
/// backward is followed by theirs where backwards are whole. Equal stages of a chunk's time c each
/// on p ranks: (m + p - 1) c under GPipe and 1F1B, so that the bubble is (p - 1)/(m + p - 1) of the
/// step (arXiv:1811.06965, 2.3); (v m + p - 1) c with v stages a rank (arXiv:2104.04473, 2.2.2).
/// `again`: micro-batches whose stages run their forward again.
Duration pipeline_time_bound(const PipelineSetup& setup, const StageCosts& stages, int again);
/// By rank: its part of that, up to its last backward.
std::vector<Duration> pipeline_rank_bounds(const PipelineSetup& setup, const StageCosts& stages,
                                           int again);
/// Nor does the host of the rank that has most to launch.
Duration pipeline_host_bound(const PipelineSetup& setup, const StageCosts& stages);

/// The most that a rank's stages keep of micro-batches at once, in its order. Example: 1F1B's rank
/// r of p keeps min(p - r, m) micro-batches (arXiv:2006.09503).
Bytes kept_in_order(const ActionOrder& order, const StageCosts& stages, int again);

}  // namespace shardscope::planner
