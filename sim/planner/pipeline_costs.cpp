#include "sim/planner/pipeline_costs.h"

#include <algorithm>
#include <limits>

namespace shardscope::planner {
namespace {

Duration whole_backward(const ChunkTime& chunk) {
  return chunk.input_backward + chunk.weight_backward;
}

/// Adds up the parts of one stage.
class Stage {
 public:
  void add(const PartCost& part) {
    time_.forward += part.time.forward;
    time_.input_backward += part.time.input_backward;
    time_.weight_backward += part.time.weight_backward;
    kept_ += part.kept;
    operations_ += part.operations;
    last_forward_ = part.last_forward;
  }
  /// What it sends on, it does not make twice.
  void end(bool sends, Duration launch, StageCosts& costs) const {
    costs.chunks.push_back(time_);
    costs.again.push_back(sends ? time_.forward - last_forward_ : time_.forward);
    costs.kept.push_back(kept_);
    costs.launches.push_back(launch * operations_);
  }

 private:
  ChunkTime time_;
  Duration last_forward_;
  Bytes kept_;
  std::int64_t operations_ = 0;
};

struct RankWork {
  Duration start{std::numeric_limits<std::int64_t>::max()};  ///< of its first forward
  Duration work;
  Duration tail{std::numeric_limits<std::int64_t>::max()};  ///< behind its last backward
};

}  // namespace

StageCosts stage_costs(const ModelCosts& model, const std::vector<int>& blocks) {
  StageCosts costs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const bool last = i + 1 == blocks.size();
    Stage stage;
    if (i == 0) stage.add(model.embedding);
    if (model.are_of_places) next = 0;
    for (int block = 0; block < blocks[i]; ++block) stage.add(model.blocks[next++]);
    if (last) stage.add(model.head);
    stage.end(!last, model.launch, costs);
  }
  return costs;
}

namespace {

std::vector<RankWork> work_of_ranks_between(const PipelineSetup& setup, const StageCosts& stages,
                                            int again) {
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  std::vector<RankWork> ranks(static_cast<std::size_t>(setup.ranks));
  Duration before, behind;
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
    const ChunkTime& chunk = stages.chunks[s];
    const Duration backward = whole_backward(chunk);
    RankWork& rank = ranks[static_cast<std::size_t>(rank_of_stage[s])];
    rank.start = std::min(rank.start, before);
    rank.work += (chunk.forward + backward) * setup.micro_batches + stages.again[s] * again;
    rank.tail = std::min(rank.tail, behind);
    before += chunk.forward;
    if (!splits_backward(setup.kind)) behind += backward;
  }
  return ranks;
}

}  // namespace

Duration pipeline_time_bound(const PipelineSetup& setup, const StageCosts& stages, int again) {
  Duration longest;
  for (const RankWork& rank : work_of_ranks_between(setup, stages, again))
    longest = std::max(longest, rank.start + rank.work + rank.tail);
  return longest;
}

std::vector<Duration> pipeline_rank_bounds(const PipelineSetup& setup, const StageCosts& stages,
                                           int again) {
  std::vector<Duration> ranks;
  for (const RankWork& rank : work_of_ranks_between(setup, stages, again))
    ranks.push_back(rank.start + rank.work);
  return ranks;
}

Duration pipeline_host_bound(const PipelineSetup& setup, const StageCosts& stages) {
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  std::vector<Duration> ranks(static_cast<std::size_t>(setup.ranks));
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s)
    ranks[static_cast<std::size_t>(rank_of_stage[s])] += stages.launches[s] * setup.micro_batches;
  return *std::ranges::max_element(ranks);
}

Bytes kept_in_order(const ActionOrder& order, const StageCosts& stages, int again) {
  Bytes kept, most;
  for (const ActionSlot& slot : order)
    for (const Action& action : slot.actions()) {
      const Bytes own = stages.kept[static_cast<std::size_t>(action.stage)];
      const bool runs_again = action.micro_batch < again;
      if (action.kind == ActionKind::forward && !runs_again) most = std::max(most, kept += own);
      if (!is_input_backward(action.kind)) continue;
      if (runs_again)
        most = std::max(most, kept + own);
      else
        kept -= own;
    }
  return most;
}

}  // namespace shardscope::planner
