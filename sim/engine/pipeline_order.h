// Ends of the ranks of a pipeline for many times of its chunks: what follows what is worked out
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/quantities.h"
#include "core/pipeline/program.h"
#include "sim/engine/pipeline_timeline.h"

namespace shardscope {

class PipelineOrder {
 public:
  /// Throws Error where ranks wait for each other.
  explicit PipelineOrder(const std::vector<PipelineProgram>& programs);

  /// `pipeline_ends` of these programs where a rank's transfers have one channel and take equally
  /// long. `chunks`: by stage.
  std::vector<Duration> ends(const std::vector<ChunkTime>& chunks, Duration transfer) const;

  std::size_t steps() const { return steps_.size(); }

 private:
  enum class StepKind : std::uint8_t { act, transfer, record, wait };
  /// Of a rank's chunks (lane 2 x rank) or of its transfers (the lane behind it).
  struct Step {
    std::uint32_t event = 0;  ///< recorded or waited for; a transfer records its end
    std::uint16_t lane = 0;
    std::uint16_t stage = 0;  ///< of an action
    StepKind kind = StepKind::act;
    ActionKind action = ActionKind::forward;
  };
  class Lanes;

  std::vector<Step> steps_;  ///< each behind all that it follows
  std::uint32_t events_ = 0;
  std::size_t ranks_ = 0;
};

}  // namespace shardscope
