// What the stages of torchtitan's pipelines take, recorded on stages of few blocks with all that
// ranks share inside a stage.
#pragma once

#include <array>
#include <compare>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"
#include "sim/engine/pipeline_timeline.h"
#include "sim/planner/live_bytes.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// What a micro-batch of a stage takes depends on this alone, whatever the number of stages and
/// micro-batches and their order are: pipelines that differ in nothing else share a recording.
struct ProbeKey {
  PlainKey plain;
  TrainingPrecision precision = TrainingPrecision::bf16_mixed;
  int shard = 1;          ///< ranks; where parameters stay, 2 stand for all of them
  bool reshards = false;  ///< parameters are let go after each forward
  bool splits = false;    ///< backward for inputs and for weights are apart
  auto operator<=>(const ProbeKey&) const = default;
};
/// Of a pipelined choice.
ProbeKey probe_key(const Choice& choice);

/// What the order of a pipeline's actions depends on: schedule, ranks, stages of a rank,
/// micro-batches.
using OrderKey = std::tuple<PipelineScheduleKind, int, int, int>;

/// What a pipeline's timeline depends on, and what its ranks keep of micro-batches.
struct TimelineKey {
  ProbeKey probe;
  OrderKey order;
  std::vector<int> blocks;  ///< by stage
  Duration transfer;
  auto operator<=>(const TimelineKey&) const = default;
};
struct StageTimeline {
  std::vector<Duration> ends;  ///< of each rank's last backward
  std::vector<Bytes> live;     ///< by rank: see `most_live`
};

/// A stage's chunks of one micro-batch in the middle of a step. A backward that is not split counts
/// as that for inputs.
struct StageChunks {
  ChunkTime time;
  LiveChange forward, input_backward, weight_backward;
  /// That only the first forward and the first backward of weights leave behind, until the step
  /// ends: gathered parameters, gradients.
  Bytes by_first_forward, by_first_backward;
};

/// By stage: the first one has the embedding, the last one head and loss.
class ProbedStages {
 public:
  enum class Kind : std::uint8_t { first, middle, last };
  static constexpr std::size_t kinds = 3;

  /// `of_few`: of stages of so many blocks. `added`: by the block, see below.
  ProbedStages(int few, std::array<StageChunks, kinds> of_few, std::vector<StageChunks> added)
      : few_(few), of_few_(of_few), added_(std::move(added)) {}

  /// Every k-th block as in the `checkpointed` stages, the others as in `plain` ones.
  static ProbedStages sparse(const ProbedStages& plain, const ProbedStages& checkpointed,
                             int every);

  /// Of a stage of so many blocks.
  StageChunks of(Kind kind, int blocks) const;
  /// By stage.
  std::vector<StageChunks> stages(const std::vector<int>& blocks) const;

 private:
  const StageChunks& added_by(int block) const {
    return added_[static_cast<std::size_t>(block - 1) % added_.size()];
  }

  int few_;
  std::array<StageChunks, kinds> of_few_;
  /// What a block adds to its stage, by its number in the stage, which counts from 1, again and
  /// again: torchtitan counts those that it checkpoints.
  std::vector<StageChunks> added_;
};

/// The most that lives on a rank beside its shards and states, in its order.
Bytes most_live(const ActionOrder& order, const std::vector<StageChunks>& stages);

/// Records one rank of each kind with a few micro-batches and plays it alone; transfers between
/// stages take no time. A chunk takes what passes from the end of the one before to its own in the
/// middle of the step, with the gathers that nothing hides. What lives is counted as
/// `allocated_peak` does. Throws Error where the choice cannot be recorded.
ProbedStages probed_stages(const Choice& choice, const TrialInputs& inputs,
                           const std::stop_token& stop = {});

}  // namespace shardscope::planner
