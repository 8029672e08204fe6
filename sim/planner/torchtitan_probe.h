// What the stages of torchtitan's pipelines take, recorded on stages of few blocks with all that
// ranks share inside a stage.
#pragma once

#include <array>
#include <compare>
#include <stop_token>
#include <vector>

#include "sim/engine/pipeline_timeline.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// What a micro-batch of a stage takes depends on this alone, whatever the number of stages and
/// micro-batches and their order are: pipelines that differ in nothing else share a recording.
struct ProbeKey {
  PlainKey plain;
  int shard = 1;          ///< ranks; where parameters stay, 2 stand for all of them
  bool reshards = false;  ///< parameters are let go after each forward
  bool splits = false;    ///< backward for inputs and for weights are apart
  auto operator<=>(const ProbeKey&) const = default;
};
/// Of a pipelined choice.
ProbeKey probe_key(const Choice& choice);

/// By stage: the first one has the embedding, the last one head and loss.
class ProbedStages {
 public:
  enum class Kind : std::uint8_t { first, middle, last };
  static constexpr std::size_t kinds = 3;

  ProbedStages(std::array<ChunkTime, kinds> of_one, std::vector<ChunkTime> added)
      : of_one_(of_one), added_(std::move(added)) {}

  /// Of a stage of so many blocks.
  ChunkTime chunk(Kind kind, int blocks) const;
  /// By stage.
  std::vector<ChunkTime> chunks(const std::vector<int>& blocks) const;

 private:
  std::array<ChunkTime, kinds> of_one_;
  /// By the block's place in its stage, from the second on, again and again: torchtitan counts
  /// those that it checkpoints.
  std::vector<ChunkTime> added_;
};

/// Records one rank of each kind with a few micro-batches and plays it alone; transfers between
/// stages take no time. A chunk takes what passes from the end of the one before to its own in the
/// middle of the step, with the gathers that nothing hides. Throws Error where the choice cannot be
/// recorded.
ProbedStages probed_stages(const Choice& choice, const TrialInputs& inputs,
                           const std::stop_token& stop = {});

}  // namespace shardscope::planner
